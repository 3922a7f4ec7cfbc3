#include "pipeline/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 1 << 24 };

/* Stands for infinity in the values: products with 0 stay numbers. */
static const double dead = 1e300;

static tg_status out_of_memory(tg_error *err)
{
    return tg_fail(err, TG_EMEMORY, "out of memory");
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

tg_status tg_tables_make(tg_arena *arena, tg_problem *problem, tg_halt *halt, tg_tables *out, tg_error *err)
{
    const size_t L = (size_t)problem->atoms + 1;
    *out = (tg_tables){.arena = arena, .problem = problem, .halt = halt, .classes = 1};
    tg_status status = tg_reach_make(arena, problem, halt, &out->reach, err);
    if (status != TG_OK)
        return status;
    out->index = malloc(L * (size_t)out->reach.sets * (size_t)(problem->classes + 1) * sizeof *out->index);
    out->head = tg_arena_alloc(arena, L, sizeof *out->head);
    out->usable = tg_arena_alloc(arena, (size_t)problem->group_start[problem->atoms + 1], sizeof *out->usable);
    out->usable_start = tg_arena_alloc(arena, L + 1, sizeof *out->usable_start);
    out->least_e = tg_arena_alloc(arena, L, sizeof *out->least_e);
    out->least_x = tg_arena_alloc(arena, L, sizeof *out->least_x);
    out->scratch = tg_arena_alloc(arena, (TG_LABEL_COLUMNS + 1) * (size_t)problem->most_stages, sizeof *out->scratch);
    if (!out->index || !out->head || !out->usable || !out->usable_start || !out->least_e || !out->least_x ||
        !out->scratch)
        return out_of_memory(err);
    return TG_OK;
}

bool tg_tables_fit_by_class(const tg_tables *tables)
{
    const size_t cells = ((size_t)tables->problem->atoms + 1) * (size_t)tables->reach.sets;
    return tables->problem->classes > 1 && cells * (size_t)tables->problem->classes <= MOST_CELLS;
}

void tg_tables_free(tg_tables *tables)
{
    free(tables->index);
    free(tables->values);
    tg_fronts_free(&tables->fronts);
    tg_rows_free(&tables->rows);
    tg_edges_free(&tables->edges);
    tg_doubles_free(&tables->transfers);
}

/* Transfers between a plan in front, by its rear class, and the row's suffixes: over the row's class, or the least over
 * the classes that may stand there. */
static void find_transfers(tg_tables *tables, int at)
{
    const tg_problem *problem = tables->problem;
    const tg_row *row = &tables->rows.at[at];
    double *transfer_s = &tables->transfers.at[(size_t)at * (size_t)problem->classes];
    for (int r = 0; r < problem->classes; r++)
        transfer_s[r] = row->boundary == problem->atoms ? 0 : INFINITY;
    if (row->boundary == problem->atoms)
        return;
    for (int f = 0; f < problem->classes; f++) {
        const int kind = problem->class_kind[f], stride = tables->reach.stride[kind];
        if (tables->classes > 1 ? f != row->front_class
                                : stride && row->set / stride % (tg_kind_size(problem, kind) + 1) == 0)
            continue;
        for (int r = 0; r < problem->classes; r++)
            transfer_s[r] = smaller(transfer_s[r], tg_problem_transfer_s(problem, row->boundary, r, f));
    }
}

static double transfer_of(const tg_tables *tables, int at, const tg_piece *piece)
{
    return tables->transfers.at[(size_t)at * (size_t)tables->problem->classes + (size_t)piece->rear_class];
}

static int new_row(tg_tables *tables, int boundary, int set, int front_class)
{
    const int fresh = (int)tables->rows.count;
    const tg_row row = {.boundary = boundary,
                        .set = set,
                        .front_class = front_class,
                        .next = tables->head[boundary],
                        .low = INT_MAX,
                        .high = -1,
                        .front_low = INT_MAX,
                        .front_high = -1,
                        .r = dead,
                        .e = dead,
                        .x = dead,
                        .pre_r = dead,
                        .pre_e = dead,
                        .pre_x = dead};
    if (!tg_rows_push(&tables->rows, row))
        return -1;
    for (int c = 0; c < tables->problem->classes; c++)
        if (!tg_doubles_push(&tables->transfers, 0))
            return -1;
    tables->head[boundary] = fresh;
    tables->index[((size_t)boundary * (size_t)tables->reach.sets + (size_t)set) * (size_t)tables->classes +
                  (size_t)front_class] = fresh;
    return fresh;
}

/* The least round trip, E and X that a piece makes of the row's suffixes, whatever n. */
typedef struct {
    double r, e, x;
} least_label;

static least_label least_of(const tg_problem *problem, const tg_content *content, const tg_row *row, double transfer_s)
{
    const double rest = row->r + 2 * transfer_s;
    const double behind = larger(2 * transfer_s + row->e, (problem->microbatches - 1) * transfer_s + rest);
    return (least_label){content->r + rest, larger(content->serial_s, content->r + behind),
                         larger(content->bottleneck_s, larger(content->e + behind, content->f + transfer_s + row->x))};
}

bool tg_tables_may_pass(const tg_tables *tables, const tg_row *row, const tg_content *content, double transfer_s,
                        const tg_row *target)
{
    const least_label least = least_of(tables->problem, content, row, transfer_s);
    return least.e + target->pre_e < tables->limit && least.x + target->pre_x < tables->limit &&
           least.r + target->pre_r < tables->limit;
}

/* The groups under the limit, and the least that fronts of their pieces add. */
static void list_usable(tg_tables *tables)
{
    const tg_problem *problem = tables->problem;
    int count = 0;
    tables->least_e[0] = tables->least_x[0] = 0;
    for (int i = 1; i <= problem->atoms; i++) {
        tables->usable_start[i] = count;
        tables->least_e[i] = tables->least_x[i] = dead;
        for (int at = problem->group_start[i]; at < problem->group_start[i + 1]; at++) {
            tg_group group = problem->group[at];
            if (!(group.least_s < tables->limit))
                continue;
            int end = group.begin;
            while (end < group.end && problem->piece[end].bottleneck_s < tables->limit) {
                const tg_content *content = &problem->content[problem->piece[end++].content];
                double next_e = tables->least_e[group.first], next_x = tables->least_x[group.first];
                tables->least_e[i] = smaller(tables->least_e[i], larger(content->r + next_e, content->e + next_x));
                tables->least_x[i] = smaller(tables->least_x[i], content->f + next_x);
            }
            group.end = end;
            tables->usable[count++] = group;
        }
    }
    tables->usable_start[problem->atoms + 1] = count;
}

/* Takes what a piece makes of a row into the row that it leads to; false when memory is out. */
static bool reach_row(tg_tables *tables, int at, const tg_piece *piece)
{
    const tg_problem *problem = tables->problem;
    const tg_row *row = &tables->rows.at[at];
    int low = row->low > piece->min_successors ? row->low : piece->min_successors;
    int high = row->high < piece->max_successors ? row->high : piece->max_successors;
    if (low > high)
        return true;
    const least_label to = least_of(problem, &problem->content[piece->content], row, transfer_of(tables, at, piece));
    if (!(to.x + tables->least_x[piece->first] < tables->limit && to.e + tables->least_e[piece->first] < tables->limit))
        return true;
    int target = tg_tables_target(tables, row, piece);
    if (target < 0) {
        target = new_row(tables, piece->first, row->set + tables->reach.stride[piece->kind],
                         tables->classes > 1 ? piece->front_class : 0);
        if (target < 0)
            return false;
    }
    tg_row *reached = &tables->rows.at[target];
    low += piece->stage_count;
    high += piece->stage_count;
    reached->low = low < reached->low ? low : reached->low;
    reached->high = high > reached->high ? high : reached->high;
    reached->r = smaller(reached->r, to.r);
    reached->e = smaller(reached->e, to.e);
    reached->x = smaller(reached->x, to.x);
    return true;
}

/* From the back: the rows that are reached, their ranges of n and least values over all n. */
static tg_status find_rows(tg_tables *tables, tg_error *err)
{
    const tg_problem *problem = tables->problem;
    const int root = new_row(tables, problem->atoms, 0, 0);
    if (root < 0)
        return out_of_memory(err);
    tg_row *first = &tables->rows.at[root];
    first->low = first->high = 0;
    first->r = first->e = first->x = 0;
    for (int i = problem->atoms; i > 0; i--)
        for (int at = tables->head[i]; at >= 0; at = tables->rows.at[at].next) {
            if (tg_halted(tables->halt, 8))
                return TG_OK;
            find_transfers(tables, at);
            for (int k = tables->usable_start[i]; k < tables->usable_start[i + 1]; k++) {
                const tg_group *group = &tables->usable[k];
                if (!tg_tables_may_stand(tables, &tables->rows.at[at], group))
                    continue;
                for (int p = group->begin; p < group->end; p++)
                    if (!reach_row(tables, at, &problem->piece[p]))
                        return out_of_memory(err);
            }
            tables->work += (tables->usable_start[i + 1] - tables->usable_start[i]) / 4;
        }
    return TG_OK;
}

/* Takes into the row what the least front that starts with this piece adds. */
static void take_front(const tg_tables *tables, int at, const tg_piece *piece)
{
    const tg_problem *problem = tables->problem;
    const tg_content *content = &problem->content[piece->content];
    tg_row *row = &tables->rows.at[at];
    const int target = tg_tables_target(tables, row, piece);
    if (target < 0 || tables->rows.at[target].high < 0)
        return;
    const tg_row *front = &tables->rows.at[target];
    int low = front->low - piece->stage_count, high = front->high - piece->stage_count;
    low = low > piece->min_successors ? low : piece->min_successors;
    low = low > row->low ? low : row->low;
    high = high < piece->max_successors ? high : piece->max_successors;
    high = high < row->high ? high : row->high;
    const double c = transfer_of(tables, at, piece), starve = (problem->microbatches - 1) * c;
    if (low > high || !tg_tables_may_pass(tables, row, content, c, front))
        return;
    const double round = larger(content->r + starve + front->pre_e, content->e + starve + front->pre_x);
    row->pre_r = smaller(row->pre_r, 2 * c + larger(content->r + front->pre_r, round));
    row->pre_e = smaller(row->pre_e, 2 * c + larger(content->r + front->pre_e, content->e + front->pre_x));
    row->pre_x = smaller(row->pre_x, content->f + c + front->pre_x);
    row->front_low = low < row->front_low ? low : row->front_low;
    row->front_high = high > row->front_high ? high : row->front_high;
}

/* From the front: least additions over all n, and the n from which a front can complete the row. */
static void find_fronts(tg_tables *tables)
{
    const tg_problem *problem = tables->problem;
    const int required = problem->required_kind, stride = required >= 0 ? tables->reach.stride[required] : 0;
    for (int at = tables->head[0]; at >= 0; at = tables->rows.at[at].next) {
        tg_row *row = &tables->rows.at[at];
        if (stride && row->set / stride % (tg_kind_size(problem, required) + 1) == 0)
            row->high = -1;
        row->pre_r = row->pre_e = row->pre_x = 0;
    }
    for (int i = 1; i <= problem->atoms; i++)
        for (int at = tables->head[i]; at >= 0; at = tables->rows.at[at].next) {
            if (tg_halted(tables->halt, 8))
                return;
            tg_row *row = &tables->rows.at[at];
            for (int k = tables->usable_start[i]; k < tables->usable_start[i + 1]; k++) {
                const tg_group *group = &tables->usable[k];
                if (!tg_tables_may_stand(tables, row, group))
                    continue;
                for (int p = group->begin; p < group->end; p++)
                    take_front(tables, at, &problem->piece[p]);
            }
            row->low = row->front_low;
            row->high = row->front_high;
            tables->work += (tables->usable_start[i + 1] - tables->usable_start[i]) / 4;
        }
}

/* Fronts add at each n what they add over all n, by the limit that the rows are made for. */
static void clear_fronts(tg_tables *tables)
{
    const size_t room = tables->values_room;
    for (int i = 0; i <= tables->problem->atoms; i++)
        for (int at = tables->head[i]; at >= 0 && !tg_halted(tables->halt, 64); at = tables->rows.at[at].next) {
            const tg_row *row = &tables->rows.at[at];
            for (int n = row->low; n <= row->high; n++) {
                const size_t cell = row->at + (size_t)(n - row->low);
                double *value = tables->values + cell;
                value[TG_PRE_HEAD * room] = value[TG_PRE_TAIL * room] = row->pre_r;
                value[TG_PRE_BOTH * room] = -dead;
                value[TG_PRE_E * room] = row->pre_e;
                value[TG_PRE_X * room] = row->pre_x;
            }
        }
}

/* Gives each living row its place in the values. */
static tg_status place_values(tg_tables *tables, tg_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < tables->rows.count; i++) {
        tg_row *row = &tables->rows.at[i];
        row->at = count;
        count += row->high >= row->low ? (size_t)(row->high - row->low + 1) : 0;
    }
    if (count > tables->values_room) {
        free(tables->values);
        tables->values = malloc(TG_COLUMNS * (count + count / 2) * sizeof *tables->values);
        tables->values_room = tables->values ? count + count / 2 : 0;
        if (!tables->values)
            return out_of_memory(err);
    }
    tables->values_count = count;
    clear_fronts(tables);
    return TG_OK;
}

static bool root_lives(const tg_tables *tables)
{
    const tg_row *root = tg_tables_root(tables);
    double most = -dead;
    for (int column = TG_PRE_HEAD; column < TG_COLUMNS; column++)
        most = larger(most, tg_tables_column(tables, column)[root->at]);
    return most < tables->limit;
}

/* Lets go of dead edges, and of rows that no living edge leads to or from. */
static void trim(tg_tables *tables)
{
    size_t kept = 0;
    for (int i = tables->problem->atoms; i >= 0; i--)
        for (int *link = &tables->head[i]; *link >= 0;) {
            tg_row *row = &tables->rows.at[*link];
            const size_t first = kept;
            for (size_t k = row->first_edge; k < row->first_edge + row->edges; k++)
                if (tables->edges.at[k].least < tables->limit)
                    tables->edges.at[kept++] = tables->edges.at[k];
            row->first_edge = first;
            row->edges = kept - first;
            if (row->edges || i == 0)
                link = &row->next;
            else
                *link = row->next;
        }
    tables->edges.count = kept;
}

double tg_tables_least(const tg_tables *tables)
{
    const tg_label nothing = {0, 0, 0, 0};
    return tg_fronts_bound(tables, tables->head[tables->problem->atoms], 0, 0, &nothing);
}

/* Once more from the back, now that the fronts are known by n, and the fronts apart. */
static tg_status finish(tg_tables *tables, tg_error *err)
{
    if (tables->halt->stopped != TG_NOT_STOPPED || !root_lives(tables))
        return TG_OK;
    tg_tables_suffix_pass(tables);
    tg_status status = tg_fronts_make(tables, err);
    if (status == TG_OK && tables->halt->stopped == TG_NOT_STOPPED && tg_tables_least(tables) < tables->limit)
        tables->death = TG_ALIVE;
    return status;
}

tg_status tg_tables_tighten(tg_tables *tables, double limit, tg_error *err)
{
    if (limit > tables->limit) /* what fronts add by a lower limit is too much */
        clear_fronts(tables);
    tables->limit = limit;
    tables->work = 0;
    tables->death = TG_NO_LABEL;
    tg_tables_suffix_pass(tables);
    tg_tables_front_pass(tables);
    return finish(tables, err);
}

tg_status tg_tables_build(tg_tables *tables, double limit, bool by_class, tg_error *err)
{
    const tg_problem *problem = tables->problem;
    tables->limit = limit;
    tables->built = 0;
    tables->work = 0;
    tables->death = TG_NO_COVER;
    tables->classes = by_class ? problem->classes : 1;
    tables->rows.count = tables->edges.count = tables->transfers.count = 0;
    list_usable(tables);
    if (!tg_reach_find(&tables->reach, tables->usable, tables->usable_start, limit, true))
        return TG_OK;
    tables->death = TG_NO_ROW;
    size_t cells = ((size_t)problem->atoms + 1) * (size_t)tables->reach.sets * (size_t)tables->classes;
    memset(tables->index, 0xff, cells * sizeof *tables->index);
    for (int i = 0; i <= problem->atoms; i++)
        tables->head[i] = -1;
    tg_status status = find_rows(tables, err);
    if (status != TG_OK || tables->head[0] < 0)
        return status;
    find_fronts(tables);
    if (tg_tables_root(tables)->high < 0 || tables->halt->stopped != TG_NOT_STOPPED)
        return TG_OK;
    tables->death = TG_NO_LABEL;
    status = place_values(tables, err);
    if (status == TG_OK)
        status = tg_tables_make_edges(tables, err);
    if (status != TG_OK || tables->halt->stopped != TG_NOT_STOPPED)
        return status;
    tg_tables_front_pass(tables);
    if (tables->halt->stopped != TG_NOT_STOPPED || !root_lives(tables))
        return TG_OK;
    trim(tables);
    tables->built = limit;
    tg_tables_suffix_pass(tables);
    tg_tables_front_pass(tables);
    status = finish(tables, err);
    tables->build_work = tables->work;
    return status;
}
