#include "pipeline/knapsack.h"

#include <math.h>
#include <stdlib.h>

/* A row of the items so far. Steps are chained backwards; those of all items lie in one array. */
typedef struct {
    double bytes, time_s;
    size_t before; /* the step of the item in front */
    int choice;
} step;
TG_VEC(steps, step);
TG_VEC(points, tg_knapsack_point);

struct tg_knapsack_front {
    int items;
    steps all;
    size_t last; /* where the last item's steps, the front, start */
    points front;
};

tg_knapsack_front *tg_knapsack_new(void)
{
    return calloc(1, sizeof(tg_knapsack_front));
}

void tg_knapsack_free(tg_knapsack_front *front)
{
    if (front == NULL)
        return;
    steps_free(&front->all);
    points_free(&front->front);
    free(front);
}

size_t tg_knapsack_count(const tg_knapsack_front *front)
{
    return front->front.count;
}
int tg_knapsack_items(const tg_knapsack_front *front)
{
    return front->items;
}

/* What pruning needs. */
typedef struct {
    const tg_knapsack *problem;
    double *rest_bytes; /* items + 1: the fewest bytes of the items from there on */
    double *handicap_s; /* choices * choices: how much dearer any next item may be behind [a] than behind [b] */
    double *best_s;     /* choices: scratch */
} work;

static double switch_s(const tg_knapsack *problem, int from, int to)
{
    return problem->switch_s ? problem->switch_s[from * problem->choices + to] : 0;
}

static tg_status check(const tg_knapsack *p, tg_error *err)
{
    if (p->items < 1 || p->items > TG_KNAPSACK_ITEMS)
        return tg_fail(err, TG_EINPUT, "items: got %d, expected 1 to %d", p->items, TG_KNAPSACK_ITEMS);
    if (p->choices < 1 || p->choices > TG_KNAPSACK_CHOICES)
        return tg_fail(err, TG_EINPUT, "choices: got %d, expected 1 to %d", p->choices, TG_KNAPSACK_CHOICES);
    for (int i = 0; i < p->items; i++)
        for (int c = 0; c < p->choices; c++) {
            double time = p->time_s[i * p->choices + c], bytes = p->bytes[i * p->choices + c];
            if (!(time >= 0) || !(bytes >= 0) || isinf(bytes))
                return tg_fail(err, TG_EINPUT, "%s[%d][%d]: expected a number of at least 0",
                               time >= 0 ? "bytes" : "time_s", i, c);
        }
    for (int c = 0; p->switch_s && c < p->choices * p->choices; c++)
        if (!(p->switch_s[c] >= 0) || isinf(p->switch_s[c]))
            return tg_fail(err, TG_EINPUT, "switch_s[%d][%d]: expected a finite number of at least 0", c / p->choices,
                           c % p->choices);
    return TG_OK;
}

static double least_bytes(const tg_knapsack *p, int item)
{
    double least = INFINITY;
    for (int c = 0; c < p->choices; c++)
        if (!isinf(p->time_s[item * p->choices + c]))
            least = fmin(least, ceil(p->bytes[item * p->choices + c]));
    return least;
}

double tg_knapsack_least_bytes(const tg_knapsack *problem)
{
    double sum = 0;
    for (int i = 0; i < problem->items; i++)
        sum += least_bytes(problem, i);
    return sum;
}

static tg_status prepare(work *w, tg_arena *arena, tg_error *err)
{
    const tg_knapsack *p = w->problem;
    size_t choices = (size_t)p->choices;
    w->rest_bytes = tg_arena_alloc(arena, (size_t)p->items + 1, sizeof(double));
    w->handicap_s = tg_arena_alloc(arena, choices * choices, sizeof(double));
    w->best_s = tg_arena_alloc(arena, choices, sizeof(double));
    if (!w->rest_bytes || !w->handicap_s || !w->best_s)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int i = p->items - 1; i >= 0; i--)
        w->rest_bytes[i] = w->rest_bytes[i + 1] + least_bytes(p, i);
    for (int a = 0; a < p->choices; a++)
        for (int b = 0; b < p->choices; b++) {
            double most = 0;
            for (int next = 0; next < p->choices; next++)
                most = fmax(most, switch_s(p, a, next) - switch_s(p, b, next));
            w->handicap_s[(size_t)a * choices + (size_t)b] = most;
        }
    return TG_OK;
}

/* Appends the steps of an item in one choice behind all steps [from, to), which are sorted by bytes. */
static bool extend(const work *w, steps *out, const steps *all, size_t from, size_t to, int item, int choice)
{
    const tg_knapsack *p = w->problem;
    double time_s = p->time_s[item * p->choices + choice], bytes = ceil(p->bytes[item * p->choices + choice]);
    double room = floor(p->capacity_bytes) - w->rest_bytes[item + 1] - bytes, best_s = INFINITY;
    if (isinf(time_s))
        return true;
    size_t start = out->count;
    for (size_t k = from; k < to && all->at[k].bytes <= room; k++) {
        const step *s = &all->at[k];
        double sum_s = s->time_s + (item ? switch_s(p, s->choice, choice) : 0) + time_s;
        if (sum_s >= best_s)
            continue;
        best_s = sum_s;
        if (out->count > start && out->at[out->count - 1].bytes == s->bytes + bytes)
            out->count--;
        if (!steps_push(out, (step){.bytes = s->bytes + bytes, .time_s = sum_s, .before = k, .choice = choice}))
            return false;
    }
    return true;
}

static int by_bytes(const void *one, const void *other)
{
    const step *a = one, *b = other;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->time_s != b->time_s)
        return a->time_s < b->time_s ? -1 : 1;
    return a->choice < b->choice ? -1 : a->choice > b->choice;
}

/* Appends to all those of the new steps for which no other is as good whatever follows. At the end nothing follows. */
static bool keep(const work *w, steps *all, steps *fresh, bool end)
{
    int choices = w->problem->choices;
    if (fresh->count)
        qsort(fresh->at, fresh->count, sizeof *fresh->at, by_bytes);
    for (int c = 0; c < choices; c++)
        w->best_s[c] = INFINITY; /* of rows that end in c or, handicap added, in any choice */
    for (size_t k = 0; k < fresh->count; k++) {
        const step *s = &fresh->at[k];
        if (s->time_s >= w->best_s[s->choice])
            continue;
        for (int c = 0; c < choices; c++)
            w->best_s[c] = fmin(w->best_s[c], s->time_s + (end ? 0 : w->handicap_s[s->choice * choices + c]));
        if (!steps_push(all, *s))
            return false;
    }
    return true;
}

static tg_status fill(tg_knapsack_front *front, const work *w, steps *fresh, tg_error *err)
{
    const tg_knapsack *p = w->problem;
    bool fine = steps_push(&front->all, (step){0}); /* the empty row */
    size_t from = 0;
    for (int i = 0; fine && i < p->items; i++) {
        size_t to = front->all.count;
        fresh->count = 0;
        for (int c = 0; fine && c < p->choices; c++)
            fine = extend(w, fresh, &front->all, from, to, i, c);
        fine = fine && keep(w, &front->all, fresh, i == p->items - 1);
        from = to;
    }
    front->last = from;
    for (size_t k = from; fine && k < front->all.count; k++)
        fine = points_push(&front->front, (tg_knapsack_point){front->all.at[k].bytes, front->all.at[k].time_s});
    return fine ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

tg_status tg_knapsack_solve(tg_knapsack_front *front, const tg_knapsack *problem, tg_error *err)
{
    front->items = problem->items;
    front->all.count = front->front.count = 0;
    tg_status status = check(problem, err);
    if (status != TG_OK)
        return status;
    tg_arena arena = {0};
    steps fresh = {0};
    work w = {.problem = problem};
    status = prepare(&w, &arena, err);
    if (status == TG_OK)
        status = fill(front, &w, &fresh, err);
    steps_free(&fresh);
    tg_arena_free(&arena);
    return status;
}

const tg_knapsack_point *tg_knapsack_best(const tg_knapsack_front *front, double capacity_bytes)
{
    size_t low = 0, high = front->front.count; /* the first that does not fit lies in low..high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (front->front.at[middle].bytes <= capacity_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &front->front.at[low - 1] : NULL;
}

void tg_knapsack_choices(const tg_knapsack_front *front, const tg_knapsack_point *point, int *choices)
{
    size_t at = front->last + (size_t)(point - front->front.at);
    for (int i = front->items - 1; i >= 0; i--) {
        choices[i] = front->all.at[at].choice;
        at = front->all.at[at].before;
    }
}
