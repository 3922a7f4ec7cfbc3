#include "search/serial.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FORM = 1, NO_TEXT = 0 };

/* Writing: after a failure (memory) the rest does nothing. */
typedef struct {
    tg_bytes *out;
    bool failed;
} writer;

static void put_byte(writer *w, unsigned byte)
{
    w->failed = w->failed || !tg_bytes_push(w->out, (unsigned char)byte);
}

static void put_bytes(writer *w, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        put_byte(w, ((const unsigned char *)bytes)[i]);
}

/* Seven bits a byte, the lowest first. */
static void put_count(writer *w, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        put_byte(w, (unsigned)(value & 0x7f) | 0x80);
    put_byte(w, (unsigned)value);
}

/* Small numbers of either sign in few bytes: 0, -1, 1, -2, … */
static void put_int(writer *w, int value)
{
    put_count(w, value < 0 ? (uint64_t)(-1 - (int64_t)value) * 2 + 1 : (uint64_t)value * 2);
}

static void put_double(writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        put_byte(w, (unsigned)(bits >> (8 * i) & 0xff));
}

static void put_text(writer *w, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    put_count(w, text ? size + 1 : NO_TEXT);
    put_bytes(w, text, size);
}

/* Byte strings, each once, numbered as they come. */
typedef struct {
    tg_bytes bytes;
    size_t *start; /* count + 1 */
    size_t count, room;
    size_t *slots; /* hash table of numbers from 1; 0: free */
    size_t slot_count;
} pool;

static bool pool_grow(pool *p)
{
    size_t slots = p->slot_count ? 2 * p->slot_count : 64;
    size_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < p->count; i++) {
        size_t size = p->start[i + 1] - p->start[i];
        size_t at = tg_hash_bytes(TG_HASH_START, p->bytes.at + p->start[i], size) % slots;
        while (table[at])
            at = (at + 1) % slots;
        table[at] = i + 1;
    }
    free(p->slots);
    p->slots = table;
    p->slot_count = slots;
    return true;
}

/* The number of the bytes from start[count] to the end, which are dropped again if they are there already. */
static bool pool_close_last(pool *p, size_t *number)
{
    if (2 * (p->count + 1) > p->slot_count && !pool_grow(p))
        return false;
    const unsigned char *last = p->bytes.at + p->start[p->count];
    size_t size = p->bytes.count - p->start[p->count];
    size_t at = tg_hash_bytes(TG_HASH_START, last, size) % p->slot_count;
    for (; p->slots[at]; at = (at + 1) % p->slot_count) {
        size_t i = p->slots[at] - 1;
        if (p->start[i + 1] - p->start[i] == size && memcmp(p->bytes.at + p->start[i], last, size) == 0) {
            p->bytes.count -= size;
            *number = i;
            return true;
        }
    }
    if (p->count + 2 > p->room && !tg_vec_grow((void **)&p->start, &p->room, sizeof *p->start))
        return false;
    p->slots[at] = ++p->count;
    p->start[p->count] = p->bytes.count;
    *number = p->count - 1;
    return true;
}

static bool pool_open(pool *p)
{
    *p = (pool){0};
    if (!tg_vec_grow((void **)&p->start, &p->room, sizeof *p->start))
        return false;
    p->start[0] = 0;
    return true;
}

static void pool_free(pool *p)
{
    tg_bytes_free(&p->bytes);
    tg_vec_release((void **)&p->start);
    free(p->slots);
}

static void put_name(writer *w, pool *names, const char *name)
{
    writer into = {.out = &names->bytes};
    put_bytes(&into, name, strlen(name) + 1); /* the NUL keeps an empty name a name */
    size_t number;
    w->failed = w->failed || into.failed || !pool_close_last(names, &number);
    if (!w->failed)
        put_count(w, number);
}

static void put_parts(writer *w, pool *names, const tg_part *parts, int count)
{
    put_count(w, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        put_name(w, names, parts[i].name);
        put_double(w, parts[i].value);
    }
}

static void put_stage(writer *w, pool *names, const tg_planned_stage *stage)
{
    const tg_strategy *s = &stage->strategy;
    const int whole[] = {stage->atoms, stage->gpus, s->dp, s->tp, s->cp, s->ep, s->etp, s->zero, s->recompute_layers};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        put_int(w, whole[i]);
    put_byte(w, (unsigned)s->sp | (unsigned)s->fsep << 1 | (unsigned)s->offload_optimizer << 2 |
                    (unsigned)s->offload_activations << 3 | (unsigned)s->recompute << 4);
    const double figures[] = {stage->forward_s,    stage->backward_s,     stage->sync_s,         stage->transfer_s,
                              stage->static_bytes, stage->inflight_bytes, stage->transient_bytes};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        put_double(w, figures[i]);
    put_parts(w, names, stage->memory_parts, stage->memory_part_count);
    put_parts(w, names, stage->time_parts, stage->time_part_count);
}

static void put_pool(writer *w, const pool *p)
{
    put_count(w, p->count);
    put_bytes(w, p->bytes.at, p->bytes.count);
}

bool tg_answer_write(const tg_answer *answer, tg_bytes *out)
{
    writer w = {.out = out};
    pool names = {0}, stages = {0};
    tg_bytes plans = {0};
    writer to_plans = {.out = &plans}, to_stages = {.out = &stages.bytes};
    w.failed = !pool_open(&names) || !pool_open(&stages);
    put_byte(&w, FORM);
    put_byte(&w, (unsigned)answer->outcome);
    put_byte(&w, answer->own_times);
    put_text(&w, answer->why);
    put_text(&w, answer->notes);
    int count = answer->outcome == TG_ANSWERED ? answer->count : 0;
    put_count(&to_plans, (uint64_t)count);
    for (int c = 0; c < count && !w.failed; c++) {
        const tg_candidate *candidate = &answer->candidates[c];
        put_int(&to_plans, candidate->idle);
        put_count(&to_plans, (uint64_t)candidate->stage_count);
        for (int s = 0; s < candidate->stage_count && !w.failed; s++) {
            size_t number = 0;
            put_stage(&to_stages, &names, &candidate->stages[s]);
            w.failed = to_stages.failed || !pool_close_last(&stages, &number);
            put_count(&to_plans, number);
        }
    }
    if (!w.failed) {
        put_pool(&w, &names);
        put_pool(&w, &stages);
        put_bytes(&w, plans.at, plans.count);
    }
    bool done = !w.failed && !to_plans.failed && !to_stages.failed;
    pool_free(&names);
    pool_free(&stages);
    tg_bytes_free(&plans);
    return done;
}

/* Reading: past the end or at anything wrong, wrong is set and all that follows is 0. */
typedef struct {
    const unsigned char *at, *end;
    tg_arena *arena;
    bool wrong, no_memory;
} reader;

static unsigned get_byte(reader *r)
{
    if (r->at == r->end)
        r->wrong = true;
    return r->wrong ? 0 : *r->at++;
}

static uint64_t get_count(reader *r)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        unsigned byte = get_byte(r);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    r->wrong = true;
    return 0;
}

static int get_int(reader *r)
{
    uint64_t value = get_count(r);
    r->wrong = r->wrong || value / 2 > INT_MAX;
    return r->wrong ? 0 : value % 2 ? -1 - (int)(value / 2) : (int)(value / 2);
}

/* A number of things that take at least a byte each. */
static size_t get_length(reader *r)
{
    uint64_t value = get_count(r);
    r->wrong = r->wrong || value > (uint64_t)(r->end - r->at);
    return r->wrong ? 0 : (size_t)value;
}

static double get_double(reader *r)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)get_byte(r) << (8 * i);
    double value;
    memcpy(&value, &bits, sizeof value);
    return r->wrong ? 0 : value;
}

static void *allocate(reader *r, size_t count, size_t size)
{
    void *made = tg_arena_alloc(r->arena, count, size);
    r->no_memory = r->no_memory || !made;
    r->wrong = r->wrong || !made;
    return made;
}

static char *get_text(reader *r)
{
    size_t size = get_length(r);
    if (r->wrong || size == NO_TEXT)
        return NULL;
    char *text = allocate(r, size, 1);
    if (text) {
        memcpy(text, r->at, size - 1);
        r->at += size - 1;
    }
    return text;
}

typedef struct {
    const char **at;
    size_t count;
} name_list;

static name_list get_names(reader *r)
{
    name_list names = {.count = get_length(r)};
    names.at = allocate(r, names.count, sizeof *names.at);
    for (size_t i = 0; i < names.count && !r->wrong; i++) {
        const unsigned char *end = memchr(r->at, '\0', (size_t)(r->end - r->at));
        r->wrong = !end;
        if (end) {
            names.at[i] = tg_arena_strdup(r->arena, (const char *)r->at);
            r->no_memory = !names.at[i];
            r->wrong = r->no_memory;
            r->at = end + 1;
        }
    }
    return names;
}

static const tg_part *get_parts(reader *r, const name_list *names, int *count)
{
    size_t n = get_length(r);
    tg_part *parts = n ? allocate(r, n, sizeof *parts) : NULL;
    for (size_t i = 0; i < n && !r->wrong; i++) {
        uint64_t name = get_count(r);
        r->wrong = r->wrong || name >= names->count;
        parts[i] = (tg_part){.name = r->wrong ? "" : names->at[name], .value = get_double(r)};
    }
    *count = r->wrong || n > INT_MAX ? 0 : (int)n;
    return parts;
}

static void get_stage(reader *r, const name_list *names, tg_planned_stage *stage)
{
    tg_strategy *s = &stage->strategy;
    int *const whole[] = {&stage->atoms, &stage->gpus,        &s->dp, &s->tp, &s->cp, &s->ep, &s->etp,
                          &s->zero,      &s->recompute_layers};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        *whole[i] = get_int(r);
    unsigned flags = get_byte(r);
    s->sp = flags & 1;
    s->fsep = flags >> 1 & 1;
    s->offload_optimizer = flags >> 2 & 1;
    s->offload_activations = flags >> 3 & 1;
    r->wrong = r->wrong || flags >> 4 > TG_RECOMPUTE_FULL;
    s->recompute = (tg_recompute)(flags >> 4 & 3);
    double *const figures[] = {&stage->forward_s,    &stage->backward_s,     &stage->sync_s,         &stage->transfer_s,
                               &stage->static_bytes, &stage->inflight_bytes, &stage->transient_bytes};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        *figures[i] = get_double(r);
    stage->memory_parts = get_parts(r, names, &stage->memory_part_count);
    stage->time_parts = get_parts(r, names, &stage->time_part_count);
}

static void get_candidate(reader *r, const tg_planned_stage *stages, size_t stage_count, tg_candidate *candidate)
{
    candidate->idle = get_int(r);
    size_t count = get_length(r);
    tg_planned_stage *own = allocate(r, count, sizeof *own);
    for (size_t s = 0; s < count && !r->wrong; s++) {
        uint64_t number = get_count(r);
        r->wrong = r->wrong || number >= stage_count;
        if (!r->wrong)
            own[s] = stages[number];
    }
    candidate->stages = own;
    candidate->stage_count = (int)count;
    r->wrong = r->wrong || count > INT_MAX;
}

tg_status tg_answer_read(const void *bytes, size_t size, tg_arena *arena, tg_answer *out, tg_error *err)
{
    reader r = {.at = bytes, .end = (const unsigned char *)bytes + size, .arena = arena};
    *out = (tg_answer){0};
    r.wrong = get_byte(&r) != FORM;
    unsigned outcome = get_byte(&r);
    r.wrong = r.wrong || outcome > TG_FAILED;
    out->outcome = (tg_outcome)(outcome & 3);
    out->own_times = get_byte(&r) == 1;
    out->why = get_text(&r);
    out->notes = get_text(&r);
    name_list names = get_names(&r);
    size_t stage_count = get_length(&r);
    tg_planned_stage *stages = r.wrong ? NULL : allocate(&r, stage_count, sizeof *stages);
    for (size_t s = 0; s < stage_count && !r.wrong; s++)
        get_stage(&r, &names, &stages[s]);
    size_t count = get_length(&r);
    tg_candidate *candidates = r.wrong ? NULL : allocate(&r, count, sizeof *candidates);
    for (size_t c = 0; c < count && !r.wrong; c++)
        get_candidate(&r, stages, stage_count, &candidates[c]);
    out->candidates = candidates;
    out->count = (int)count;
    if (r.no_memory)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    if (r.wrong || r.at != r.end || count > INT_MAX)
        return tg_fail(err, TG_EINPUT, "not an answer of this program");
    return TG_OK;
}
