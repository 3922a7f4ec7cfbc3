/* The passes of the tables by n. A piece is applied to all n of a row at once. */
#include "pipeline/tables.h"

enum { EDGE_WORK = 4 };

static const double dead = 1e300;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static tg_labels labels_at(const tg_tables *tables, size_t at)
{
    return (tg_labels){tables->values[TG_HEAD] + at, tables->values[TG_TAIL] + at, tables->values[TG_E] + at,
                       tables->values[TG_X] + at, tables->values[TG_NEXT] + at};
}

static void clear_suffixes(tg_tables *tables)
{
    const tg_row *root = tg_tables_root(tables);
    for (int column = TG_HEAD; column <= TG_NEXT; column++) {
        for (size_t i = 0; i < tables->values_count; i++)
            tables->values[column][i] = dead;
        tables->values[column][root->at] = 0;
    }
}

/* An edge at work: the labels that its piece makes of the row's for n = low …, and where they stand in the target. */
typedef struct {
    const tg_content *content;
    double transfer_s;
    int low, count;
    size_t front; /* in the values, of n = low + the piece's stages at the target */
    tg_labels to;
} step;

/* Applies the piece where the ranges of row and target meet; false if they don't. */
static bool apply(tg_tables *tables, int at, const tg_edge *edge, step *out)
{
    const tg_problem *problem = tables->problem;
    const size_t N = (size_t)problem->most_stages;
    const tg_piece *piece = &problem->piece[edge->piece];
    const tg_row *row = &tables->rows.at[at], *target = &tables->rows.at[edge->target];
    const int s = piece->stage_count;
    int low = row->low, high = row->high;
    low = low > piece->min_successors ? low : piece->min_successors;
    low = low > target->low - s ? low : target->low - s;
    high = high < piece->max_successors ? high : piece->max_successors;
    high = high < target->high - s ? high : target->high - s;
    if (low > high)
        return false;
    double *to = tables->scratch;
    *out = (step){.content = &problem->content[piece->content],
                  .transfer_s = tables->transfers.at[(size_t)at * (size_t)problem->classes + (size_t)piece->rear_class],
                  .low = low,
                  .count = high - low + 1,
                  .front = target->at + (size_t)(low + s - target->low),
                  .to = {to, to + N, to + 2 * N, to + 3 * N, to + 4 * N}};
    tables->work += EDGE_WORK + out->count;
    tg_content_apply(problem, out->content, out->transfer_s, low, out->count,
                     labels_at(tables, row->at + (size_t)(low - row->low)), out->to);
    return true;
}

/* 0 for a label that stays under the limit with the least front, else dead. */
static double beyond_limit(const tg_tables *tables, const step *edge, int i)
{
    const size_t at = edge->front + (size_t)i;
    const double head = edge->to.head[i], tail = edge->to.tail[i];
    double total = larger(edge->to.e[i] + tables->values[TG_PRE_E][at], edge->to.x[i] + tables->values[TG_PRE_X][at]);
    total = larger(total, head + tail + tables->values[TG_PRE_BOTH][at]);
    total = larger(total, larger(head + tables->values[TG_PRE_HEAD][at], tail + tables->values[TG_PRE_TAIL][at]));
    return total < tables->limit ? 0 : dead;
}

/* Takes the labels under the limit into the target; whether there is any. */
static bool take_suffixes(tg_tables *tables, const step *edge)
{
    const tg_labels into = labels_at(tables, edge->front), to = edge->to;
    bool any = false;
    for (int i = 0; i < edge->count; i++) {
        const double beyond = beyond_limit(tables, edge, i);
        any |= beyond == 0;
        into.head[i] = smaller(into.head[i], to.head[i] + beyond);
        into.tail[i] = smaller(into.tail[i], to.tail[i] + beyond);
        into.e[i] = smaller(into.e[i], to.e[i] + beyond);
        into.x[i] = smaller(into.x[i], to.x[i] + beyond);
        into.next_s[i] = smaller(into.next_s[i], to.next_s[i] + beyond);
    }
    return any;
}

/* Takes into the row what fronts that start with this edge add; whether any stays under the limit. */
static bool take_fronts(tg_tables *tables, const tg_row *row, const step *edge)
{
    const int N = tables->problem->most_stages;
    const double *maps = edge->content->maps + edge->low;
    const double r = edge->content->r, e = edge->content->e, c2 = 2 * edge->transfer_s;
    const double starve = (tables->problem->microbatches - 1) * edge->transfer_s;
    const size_t at = row->at + (size_t)(edge->low - row->low);
    double *pre_head = tables->values[TG_PRE_HEAD] + at, *pre_tail = tables->values[TG_PRE_TAIL] + at;
    double *pre_both = tables->values[TG_PRE_BOTH] + at, *pre_e = tables->values[TG_PRE_E] + at;
    double *pre_x = tables->values[TG_PRE_X] + at;
    bool any = false;
    for (int i = 0; i < edge->count; i++) {
        if (beyond_limit(tables, edge, i) > 0)
            continue;
        any = true;
        const size_t front = edge->front + (size_t)i;
        const double next_e = tables->values[TG_PRE_E][front], next_x = tables->values[TG_PRE_X][front];
        const double starved = larger(r + starve + next_e, e + starve + next_x);
        const double head = larger(maps[TG_AH * N + i] + next_e, maps[TG_XH * N + i] + next_x);
        const double tail = larger(maps[TG_AT * N + i] + next_e, maps[TG_XT * N + i] + next_x);
        const double both = larger(maps[TG_A2 * N + i] + next_e, maps[TG_X2 * N + i] + next_x);
        pre_head[i] = smaller(pre_head[i], c2 + larger(larger(head, starved), r + tables->values[TG_PRE_HEAD][front]));
        pre_tail[i] = smaller(pre_tail[i], c2 + larger(larger(tail, starved), r + tables->values[TG_PRE_TAIL][front]));
        pre_both[i] = smaller(pre_both[i], 2 * c2 + larger(both, 2 * r + tables->values[TG_PRE_BOTH][front]));
        pre_e[i] = smaller(pre_e[i], c2 + larger(r + next_e, e + next_x));
        pre_x[i] = smaller(pre_x[i], edge->content->f + edge->transfer_s + next_x);
    }
    return any;
}

/* Makes the edges of a group's pieces in front of a row. */
static tg_status make_edges_of(tg_tables *tables, int at, const tg_group *group, tg_error *err)
{
    tg_problem *problem = tables->problem;
    const tg_row *row = &tables->rows.at[at];
    for (int p = group->begin; p < group->end; p++) {
        const tg_piece *piece = &problem->piece[p];
        tg_content *content = &problem->content[piece->content];
        const tg_edge edge = {p, tg_tables_target(tables, row, piece), 0};
        if (edge.target < 0 || tables->rows.at[edge.target].high < tables->rows.at[edge.target].low)
            continue;
        const double c = tables->transfers.at[(size_t)at * (size_t)problem->classes + (size_t)piece->rear_class];
        if (!tg_tables_may_pass(tables, row, content, c, &tables->rows.at[edge.target]))
            continue;
        step applied;
        if (!tg_content_ready(tables->arena, problem, content))
            return tg_fail(err, TG_EMEMORY, "out of memory");
        if (apply(tables, at, &edge, &applied) && take_suffixes(tables, &applied) &&
            !tg_edges_push(&tables->edges, edge))
            return tg_fail(err, TG_EMEMORY, "out of memory");
    }
    return TG_OK;
}

tg_status tg_tables_make_edges(tg_tables *tables, tg_error *err)
{
    clear_suffixes(tables);
    for (int i = tables->problem->atoms; i > 0; i--)
        for (int at = tables->head[i]; at >= 0; at = tables->rows.at[at].next) {
            tg_row *row = &tables->rows.at[at];
            row->first_edge = tables->edges.count;
            row->edges = 0;
            if (row->high < row->low)
                continue;
            if (tg_halted(tables->halt, 1))
                return TG_OK;
            for (int k = tables->usable_start[i]; k < tables->usable_start[i + 1]; k++) {
                if (!tg_tables_may_stand(tables, row, &tables->usable[k]))
                    continue;
                tg_status status = make_edges_of(tables, at, &tables->usable[k], err);
                if (status != TG_OK)
                    return status;
            }
            row->edges = tables->edges.count - row->first_edge;
        }
    return TG_OK;
}

void tg_tables_suffix_pass(tg_tables *tables)
{
    clear_suffixes(tables);
    for (int i = tables->problem->atoms; i > 0; i--)
        for (int at = tables->head[i]; at >= 0 && !tg_halted(tables->halt, 1); at = tables->rows.at[at].next) {
            const tg_row *row = &tables->rows.at[at];
            for (size_t k = row->first_edge; k < row->first_edge + row->edges; k++) {
                tg_edge *edge = &tables->edges.at[k];
                step applied;
                if (edge->least < tables->limit &&
                    !(apply(tables, at, edge, &applied) && take_suffixes(tables, &applied)))
                    edge->least = tables->limit;
            }
        }
}

void tg_tables_front_pass(tg_tables *tables)
{
    for (int i = 1; i <= tables->problem->atoms; i++)
        for (int at = tables->head[i]; at >= 0 && !tg_halted(tables->halt, 1); at = tables->rows.at[at].next) {
            const tg_row *row = &tables->rows.at[at];
            for (int column = TG_PRE_HEAD; column < TG_COLUMNS; column++)
                for (int n = 0; n <= row->high - row->low; n++)
                    tables->values[column][row->at + (size_t)n] = dead;
            for (size_t k = row->first_edge; k < row->first_edge + row->edges; k++) {
                tg_edge *edge = &tables->edges.at[k];
                step applied;
                if (edge->least < tables->limit && !(apply(tables, at, edge, &applied) && take_fronts(tables, row, &applied)))
                    edge->least = tables->limit;
            }
        }
}
