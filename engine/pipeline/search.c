#include "pipeline/search.h"

#include <math.h>
#include <stdlib.h>

/* A step of the search costs several of the tables', a label hundreds. */
enum { REBUILD_SHARE = 4, LABEL_WORK = 64 };

tg_status tg_search_make(tg_arena *arena, tg_problem *problem, tg_tables *tables, tg_halt *halt, tg_search *out,
                         tg_error *err)
{
    const size_t islands = (size_t)problem->instance->islands;
    *out = (tg_search){.problem = problem, .tables = tables, .halt = halt};
    out->pieces = tg_arena_alloc(arena, islands, sizeof *out->pieces);
    out->front_first = tg_arena_alloc(arena, islands, sizeof *out->front_first);
    out->used = tg_arena_alloc(arena, (size_t)problem->kinds, sizeof *out->used);
    const int stages = problem->most_stages, B = problem->microbatches;
    const tg_compose_options *options = problem->options;
    if (!tg_chain_make(arena, stages, B, options->p2p, &out->chain) || !tg_failed_make(arena, problem, &out->failed) ||
        !tg_depths_make(arena, stages, B, options->p2p, options->gap, &out->depths) || !out->pieces ||
        !out->front_first || !out->used)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    return tg_incumbent_make(arena, problem, &out->incumbent, err);
}

void tg_search_free(tg_search *search)
{
    tg_candidates_free(&search->candidates);
    tg_failed_free(&search->failed);
}

tg_status tg_search_complete(tg_search *search, double bound, tg_error *err)
{
    const tg_problem *problem = search->problem;
    const tg_compose_options *options = problem->options;
    if (problem->required_kind >= 0 && !search->used[problem->required_kind])
        return TG_OK;
    tg_depths *depths = &search->depths;
    tg_status status = tg_depths_search(depths, &search->chain, search->target, search->halt, err);
    if (status != TG_OK)
        return status;
    search->simulated += depths->simulated;
    if (depths->simulated > depths->budget)
        search->open_bound = fmin(search->open_bound, bound);
    for (int i = 0; i < search->piece_count; i++)
        search->front_first[i] = search->pieces[search->piece_count - 1 - i];
    tg_incumbent_offer(&search->incumbent, search->front_first, search->piece_count,
                       options->objective == TG_PAPER ? bound : depths->time_s, depths->time_s, depths->best);
    search->target = fmin(search->target, tg_incumbent_limit(&search->incumbent) * (1 - options->gap));
    return TG_OK;
}

static int by_bound(const void *a, const void *b)
{
    const tg_candidate *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->edge > y->edge) - (x->edge < y->edge);
}

double tg_search_transfer_s(const tg_search *search, const tg_piece *piece)
{
    if (search->piece_count == 0)
        return 0;
    const tg_piece *behind = search->pieces[search->piece_count - 1];
    return tg_problem_transfer_s(search->problem, behind->first, piece->rear_class, behind->front_class);
}

/* Lists the row's pieces that may stand in front of the suffix, by bound. */
static tg_status list_candidates(tg_search *search, const tg_row *row, tg_label behind, tg_error *err)
{
    const tg_problem *problem = search->problem;
    const tg_tables *tables = search->tables;
    const int n = search->chain.count;
    const size_t base = search->candidates.count;
    const double from[] = {behind.head, behind.tail, behind.e, behind.x, n ? search->chain.time_s[n - 1] : 0};
    for (size_t k = row->first_edge; k < row->first_edge + row->edges; k++) {
        const tg_edge edge = tables->edges.at[k];
        if (!(edge.least < search->target))
            continue;
        const tg_piece *piece = &problem->piece[edge.piece];
        int size = problem->member_start[piece->kind + 1] - problem->member_start[piece->kind];
        if (n < piece->min_successors || n > piece->max_successors || search->used[piece->kind] == size)
            continue;
        search->used[piece->kind]++;
        const bool enough =
            tables->reach.counts_all || tg_reach_spare(problem, tables->reach.longest, piece->first, search->used) >= 0;
        search->used[piece->kind]--;
        if (!enough)
            continue;
        const double c = tg_search_transfer_s(search, piece);
        double to[TG_LABEL_COLUMNS];
        tg_content_apply(problem, &problem->content[piece->content], c, n, 1, from, 1, to, 1);
        const tg_label label = {to[TG_HEAD], to[TG_TAIL], to[TG_E], to[TG_X]};
        double bound = tg_fronts_bound(tables, edge.target, n + piece->stage_count, piece->front_class, &label);
        if (bound < search->target && !tg_candidates_push(&search->candidates, (tg_candidate){(int)k, bound}))
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    search->work += (long)row->edges;
    if (search->candidates.count > base) /* with none at all there is no array yet */
        qsort(search->candidates.at + base, search->candidates.count - base, sizeof(tg_candidate), by_bound);
    return TG_OK;
}

static bool must_leave(tg_search *search)
{
    if (tg_halted(search->halt, 16))
        search->outcome = TG_HALTED;
    else if (search->work > search->budget || (search->diving && search->incumbent.count > 0))
        search->outcome = TG_SPENT;
    else if (!search->diving && search->target < search->tables->limit &&
             search->work > search->tables->work / REBUILD_SHARE)
        search->outcome = TG_REBUILD;
    return search->outcome != TG_EXHAUSTED;
}

static tg_status extend(tg_search *search, const tg_row *row, tg_label behind, tg_error *err);

/* Goes on with the chain, whose front plan is the piece. */
static tg_status descend(tg_search *search, const tg_piece *piece, int row, tg_label label, tg_error *err)
{
    const int front_class = piece->front_class, n = search->chain.count;
    if (piece->first > 0 && search->tables->reach.counts_all &&
        tg_failed_covers(&search->failed, search->problem, row, front_class, &search->chain, &label))
        return TG_OK;
    const long simulated = search->simulated;
    search->pieces[search->piece_count++] = piece;
    search->used[piece->kind]++;
    tg_status status = piece->first == 0 ? tg_search_complete(search, label.x, err)
                                         : extend(search, &search->tables->rows.at[row], label, err);
    search->used[piece->kind]--;
    search->piece_count--;
    search->chain.count = n;
    if (status == TG_OK && piece->first > 0 && search->tables->reach.counts_all && search->outcome == TG_EXHAUSTED &&
        search->simulated == simulated &&
        !tg_failed_add(&search->failed, search->problem, row, front_class, &search->chain, &label))
        status = tg_fail(err, TG_EMEMORY, "out of memory");
    return status;
}

static tg_status extend(tg_search *search, const tg_row *row, tg_label behind, tg_error *err)
{
    const tg_problem *problem = search->problem;
    const tg_tables *tables = search->tables;
    const int n = search->chain.count;
    const size_t base = search->candidates.count;
    tg_status status = list_candidates(search, row, behind, err);
    for (size_t k = base; k < search->candidates.count && status == TG_OK && !must_leave(search); k++) {
        const tg_candidate candidate = search->candidates.at[k];
        if (candidate.bound >= search->target)
            break;
        const tg_edge edge = tables->edges.at[candidate.edge];
        const tg_piece *piece = &problem->piece[edge.piece];
        double c = tg_search_transfer_s(search, piece);
        tg_label label = tg_chain_push_content(&search->chain, &problem->content[piece->content], c, problem, behind);
        search->labels++;
        search->work += LABEL_WORK;
        if (tg_fronts_bound(tables, edge.target, search->chain.count, piece->front_class, &label) < search->target)
            status = descend(search, piece, edge.target, label, err);
        search->chain.count = n;
    }
    search->candidates.count = base;
    return status;
}

static tg_status run(tg_search *search, double target, long budget, tg_error *err)
{
    search->target = fmin(target, tg_incumbent_limit(&search->incumbent) * (1 - search->problem->options->gap));
    search->open_bound = INFINITY;
    search->work = 0;
    search->budget = budget;
    search->outcome = TG_EXHAUSTED;
    search->chain.count = search->piece_count = 0;
    if (!tg_failed_clear(&search->failed, search->tables->rows.count))
        return tg_fail(err, TG_EMEMORY, "out of memory");
    return extend(search, tg_tables_root(search->tables), (tg_label){0}, err);
}

tg_status tg_search_run(tg_search *search, long budget, tg_error *err)
{
    search->diving = false;
    return run(search, search->tables->limit, budget, err);
}

tg_status tg_search_dive(tg_search *search, long budget, tg_error *err)
{
    search->diving = true;
    return run(search, INFINITY, budget, err);
}
