#include "pipeline/beam.h"

#include <math.h>
#include <stdlib.h>

/* A suffix: a piece in front of another suffix. */
typedef struct {
    int piece, behind; /* node, -1: none */
    int next;          /* of the same boundary */
    int spare;         /* atoms by which the longest slices of the islands left exceed those to be covered */
    int better;        /* others of its atoms that leave as much and take no longer */
    double time_s;     /* the larger of E and X */
} node;

TG_VEC(nodes, node);

typedef struct {
    tg_search *search;
    nodes all;
    int *head;    /* by boundary, -1: none */
    int *longest; /* [boundary * kinds + kind]: as in reach.h */
    int width;
} beam;

/* Keeps a suffix unless so many others of the same atoms leave as much and take no longer. */
static bool keep(beam *b, int boundary, node fresh)
{
    for (int at = b->head[boundary]; at >= 0; at = b->all.at[at].next) {
        const node *other = &b->all.at[at];
        fresh.better += other->spare >= fresh.spare && other->time_s <= fresh.time_s;
    }
    if (fresh.better >= b->width)
        return true;
    for (int *link = &b->head[boundary]; *link >= 0;) {
        node *other = &b->all.at[*link];
        other->better += other->spare <= fresh.spare && other->time_s >= fresh.time_s;
        if (other->better >= b->width)
            *link = other->next;
        else
            link = &other->next;
    }
    fresh.next = b->head[boundary];
    b->head[boundary] = (int)b->all.count;
    return nodes_push(&b->all, fresh);
}

static tg_label push(tg_search *search, const tg_piece *piece, tg_label behind)
{
    const tg_problem *problem = search->problem;
    const double c = tg_search_transfer_s(search, piece);
    search->pieces[search->piece_count++] = piece;
    search->used[piece->kind]++;
    return tg_chain_push_content(&search->chain, &problem->content[piece->content], c, problem, behind);
}

/* Makes the search's suffix that of a node. */
static tg_label restore(beam *b, int at)
{
    tg_search *search = b->search;
    if (at < 0) {
        while (search->piece_count > 0)
            search->used[search->pieces[--search->piece_count]->kind]--;
        search->chain.count = 0;
        return (tg_label){0};
    }
    const tg_label behind = restore(b, b->all.at[at].behind);
    return push(search, &search->problem->piece[b->all.at[at].piece], behind);
}

/* Puts a piece in front of the search's suffix, that of a node. */
static tg_status put(beam *b, int at, int p, tg_label behind, tg_error *err)
{
    tg_search *search = b->search;
    const tg_piece *piece = &search->problem->piece[p];
    const int n = search->chain.count;
    if (n < piece->min_successors || n > piece->max_successors)
        return TG_OK;
    const tg_label label = push(search, piece, behind);
    const node fresh = {.piece = p,
                        .behind = at,
                        .spare = tg_reach_spare(search->problem, b->longest, piece->first, search->used),
                        .time_s = fmax(label.e, label.x)};
    tg_status status = TG_OK;
    if (fresh.spare >= 0 && fresh.time_s < tg_incumbent_limit(&search->incumbent)) {
        if (piece->first == 0)
            status = tg_search_complete(search, label.x, err);
        else if (!keep(b, piece->first, fresh))
            status = tg_fail(err, TG_EMEMORY, "out of memory");
    }
    search->chain.count = n;
    search->piece_count--;
    search->used[piece->kind]--;
    return status;
}

/* Puts slices in front of a node: those not much shorter than an island's longest there, and those that end it. */
static tg_status extend(beam *b, int boundary, int at, double most, tg_error *err)
{
    static const double share = 0.6;
    const tg_problem *problem = b->search->problem;
    const tg_label label = restore(b, at);
    int kind = -1, longest = 0;
    tg_status status = TG_OK;
    for (int g = problem->group_start[boundary]; g < problem->group_start[boundary + 1]; g++) {
        const tg_group *group = &problem->group[g];
        if (group->least_s > most || b->search->used[group->kind] == tg_kind_size(problem, group->kind))
            continue;
        longest = group->kind == kind ? longest : boundary - group->first; /* groups of a kind: by first */
        kind = group->kind;
        if (boundary - group->first < share * longest && group->first > 0)
            continue;
        for (int p = group->begin; p < group->end && problem->piece[p].bottleneck_s <= most && status == TG_OK; p++)
            status = put(b, at, p, label, err);
    }
    return status;
}

static tg_status run(beam *b, double most, tg_error *err)
{
    tg_search *search = b->search;
    tg_problem *problem = search->problem;
    tg_problem_list_pieces(problem, 1.5 * most);
    tg_reach_find_longest(problem, problem->group, problem->group_start, most, b->longest);
    b->all.count = 0;
    for (int i = 0; i <= problem->atoms; i++)
        b->head[i] = -1;
    tg_status status = extend(b, problem->atoms, -1, most, err);
    for (int i = problem->atoms - 1; i > 0; i--)
        for (int at = b->head[i]; at >= 0 && status == TG_OK && !tg_halted(search->halt, 1); at = b->all.at[at].next)
            status = extend(b, i, at, most, err);
    restore(b, -1);
    return status;
}

/* Offers each island alone. */
static tg_status offer_single(beam *b, tg_error *err)
{
    tg_problem *problem = b->search->problem;
    tg_status status = TG_OK;
    tg_problem_list_pieces(problem, INFINITY);
    for (int g = problem->group_start[problem->atoms]; g < problem->group_start[problem->atoms + 1]; g++) {
        const tg_group *group = &problem->group[g];
        for (int p = group->begin; p < group->end && group->first == 0 && status == TG_OK; p++)
            status = put(b, -1, p, restore(b, -1), err);
    }
    return status;
}

tg_status tg_beam(tg_search *search, double least, tg_error *err)
{
    enum { VAIN = 5, PATIENT = 16 /* runs without gain, once there was one; before longer steps */ };
    const tg_problem *problem = search->problem;
    const bool sketch = search->tables->reach.counts_all; /* the search proper will do better */
    const double step = sketch ? 1.04 : 1.02;
    beam b = {.search = search, .width = sketch ? 1 : 4};
    const size_t boundaries = (size_t)problem->atoms + 1;
    b.head = malloc(boundaries * sizeof *b.head);
    b.longest = calloc(boundaries * (size_t)problem->kinds, sizeof *b.longest);
    tg_status status = b.head && b.longest ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
    double widest = 0;
    for (int i = 0; i < problem->contents; i++)
        widest = fmax(widest, problem->content[i].bottleneck_s);
    search->target = INFINITY;
    int vain = 0;
    bool gained = false;
    if (status == TG_OK)
        status = offer_single(&b, err);
    double most = fmax(least, widest * 1e-9);
    while (status == TG_OK && search->halt->stopped == TG_NOT_STOPPED && most <= step * widest) {
        const double before = tg_incumbent_limit(&search->incumbent);
        status = run(&b, most, err);
        const double limit = tg_incumbent_limit(&search->incumbent);
        gained |= limit < before;
        vain = limit < before ? 0 : vain + 1;
        if (most >= limit || (gained && vain >= VAIN))
            break;
        most *= gained ? step : pow(step, 1 + vain / PATIENT);
    }
    free(b.head);
    free(b.longest);
    nodes_free(&b.all);
    return status;
}
