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

static void clear_suffixes(tg_tables *tables)
{
    const tg_row *root = tg_tables_root(tables);
    for (int column = 0; column < TG_LABEL_COLUMNS && !tg_halted(tables->halt, 1); column++) {
        double *values = tg_tables_column(tables, column);
        for (size_t i = 0; i < tables->values_count; i++)
            values[i] = dead;
        values[root->at] = 0;
    }
}

/* An edge at work: the labels that its piece makes of the row's for n = low …, and where they stand in the target. */
typedef struct {
    const tg_content *content;
    double transfer_s;
    int low, count;
    size_t front; /* in the values, of n = low + the piece's stages at the target */
    const double *labels, *beyond;
} step;

/* beyond = 0 for a label that stays under the limit with the least front, else dead. */
__attribute__((noinline)) static void find_beyond(const double *restrict label, size_t N, const double *restrict front,
                                                  size_t room, double limit, int count, double *restrict beyond)
{
    for (size_t i = 0; i < (size_t)count; i++) {
        const double head = label[TG_HEAD * N + i], tail = label[TG_TAIL * N + i];
        double total =
            larger(label[TG_E * N + i] + front[TG_PRE_E * room + i], label[TG_X * N + i] + front[TG_PRE_X * room + i]);
        total = larger(total, head + tail + front[TG_PRE_BOTH * room + i]);
        total = larger(total, larger(head + front[TG_PRE_HEAD * room + i], tail + front[TG_PRE_TAIL * room + i]));
        beyond[i] = total < limit ? 0 : dead;
    }
}

/* Applies the piece where the ranges of row and target meet; false if no label stays under the limit. */
static bool apply(tg_tables *tables, int at, const tg_edge *edge, step *out)
{
    const tg_problem *problem = tables->problem;
    const size_t N = (size_t)problem->most_stages, room = tables->values_room;
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
    double *to = tables->scratch, *beyond = to + TG_LABEL_COLUMNS * N;
    *out = (step){.content = &problem->content[piece->content],
                  .transfer_s = tables->transfers.at[(size_t)at * (size_t)problem->classes + (size_t)piece->rear_class],
                  .low = low,
                  .count = high - low + 1,
                  .front = target->at + (size_t)(low + s - target->low),
                  .labels = to,
                  .beyond = beyond};
    tables->work += EDGE_WORK + out->count;
    tg_content_apply(problem, out->content, out->transfer_s, low, out->count,
                     tables->values + row->at + (size_t)(low - row->low), room, to, N);
    find_beyond(to, N, tables->values + out->front, room, tables->limit, out->count, beyond);
    for (int i = 0; i < out->count; i++)
        if (beyond[i] == 0)
            return true;
    return false;
}

static void take_least(double *restrict into, const double *restrict from, const double *restrict beyond, int count)
{
    for (int i = 0; i < count; i++)
        into[i] = smaller(into[i], from[i] + beyond[i]);
}

/* Takes the labels under the limit into the target. */
static void take_suffixes(tg_tables *tables, const step *edge)
{
    const size_t N = (size_t)tables->problem->most_stages;
    for (int column = 0; column < TG_LABEL_COLUMNS; column++)
        take_least(tg_tables_column(tables, column) + edge->front, edge->labels + (size_t)column * N, edge->beyond,
                   edge->count);
}

/* Takes into the row what fronts that start with this edge add. */
static void take_fronts(tg_tables *tables, const tg_row *row, const step *edge)
{
    const size_t N = (size_t)tables->problem->most_stages, room = tables->values_room;
    const double r = edge->content->r, e = edge->content->e, c2 = 2 * edge->transfer_s;
    const double starve = (tables->problem->microbatches - 1) * edge->transfer_s;
    for (int i = 0; i < edge->count; i++) {
        if (edge->beyond[i] > 0)
            continue;
        const double *maps = edge->content->maps + edge->low + i, *front = tables->values + edge->front + i;
        const double next_e = front[TG_PRE_E * room], next_x = front[TG_PRE_X * room];
        const double starved = larger(r + starve + next_e, e + starve + next_x);
        const double head = larger(maps[TG_AH * N] + next_e, maps[TG_XH * N] + next_x);
        const double tail = larger(maps[TG_AT * N] + next_e, maps[TG_XT * N] + next_x);
        const double both = larger(maps[TG_A2 * N] + next_e, maps[TG_X2 * N] + next_x);
        double *pre = tables->values + row->at + (edge->low - row->low) + i;
        const double least[] = {c2 + larger(larger(head, starved), r + front[TG_PRE_HEAD * room]),
                                c2 + larger(larger(tail, starved), r + front[TG_PRE_TAIL * room]),
                                2 * c2 + larger(both, 2 * r + front[TG_PRE_BOTH * room]),
                                c2 + larger(r + next_e, e + next_x), edge->content->f + edge->transfer_s + next_x};
        for (size_t k = 0; k < TG_COLUMNS - TG_PRE_HEAD; k++)
            pre[(TG_PRE_HEAD + k) * room] = smaller(pre[(TG_PRE_HEAD + k) * room], least[k]);
    }
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
        if (!apply(tables, at, &edge, &applied))
            continue;
        take_suffixes(tables, &applied);
        if (!tg_edges_push(&tables->edges, edge))
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
                if (!(edge->least < tables->limit))
                    continue;
                if (apply(tables, at, edge, &applied))
                    take_suffixes(tables, &applied);
                else
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
                    tg_tables_column(tables, column)[row->at + (size_t)n] = dead;
            for (size_t k = row->first_edge; k < row->first_edge + row->edges; k++) {
                tg_edge *edge = &tables->edges.at[k];
                step applied;
                if (!(edge->least < tables->limit))
                    continue;
                if (apply(tables, at, edge, &applied))
                    take_fronts(tables, row, &applied);
                else
                    edge->least = tables->limit;
            }
        }
}
