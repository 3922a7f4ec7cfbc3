/* Fronts as functions of the label behind them. A plan is a max-plus map (maxplus.h) and X of the whole one of its
 * terms, so a front is a maximum of the label's terms plus constants; with a plan put behind it, it is another. One
 * least front for each row and n, component by component, is what the passes use; here the constants of unlike fronts
 * stay apart: a cell holds a few of each rear class, which leaves no transfer open. One that is no less than another of
 * its class in all constants goes, and of too many the nearest two become their lower envelope: the least over a cell
 * stays a lower bound. */
#include "pipeline/tables.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_OF_CLASS = 4 };

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

void tg_fronts_free(tg_fronts *fronts)
{
    tg_front_list_free(&fronts->list);
    free(fronts->start);
    free(fronts->count);
}

static double total(const tg_front *front, int B, double c, double head, double tail, double e, double x)
{
    const double H = head + 2 * c, T = tail + 2 * c;
    const double round = larger(larger(front->head + H, front->tail + T), front->both + H + T);
    const double behind = front->e + larger(2 * c + e, (B - 1) * c + larger(H, T));
    return larger(larger(front->base, round), larger(behind, front->x + c + x));
}

double tg_fronts_bound(const tg_tables *tables, int row, int n, int front_class, const tg_label *label)
{
    const tg_problem *problem = tables->problem;
    const tg_row *at = &tables->rows.at[row];
    if (n < at->low || n > at->high)
        return INFINITY;
    if (at->boundary == 0)
        return label->x;
    const size_t cell = at->at + (size_t)(n - at->low);
    const tg_front *front = &tables->fronts.list.at[tables->fronts.start[cell]];
    double least = INFINITY;
    for (int i = 0; i < tables->fronts.count[cell]; i++) {
        const double c = at->boundary == problem->atoms
                             ? 0
                             : tg_problem_transfer_s(problem, at->boundary, front[i].rear_class, front_class);
        least =
            smaller(least, total(&front[i], problem->microbatches, c, label->head, label->tail, label->e, label->x));
    }
    return larger(label->x, least);
}

static double apart(double a, double b)
{
    return a == b ? 0 : fabs(a - b); /* both may be infinite */
}

static double distance(const tg_front *a, const tg_front *b)
{
    return apart(a->base, b->base) + apart(a->head, b->head) + apart(a->tail, b->tail) + apart(a->e, b->e) +
           apart(a->x, b->x);
}

static bool no_worse(const tg_front *a, const tg_front *b)
{
    return a->rear_class == b->rear_class && a->base <= b->base && a->head <= b->head && a->tail <= b->tail &&
           a->both <= b->both && a->e <= b->e && a->x <= b->x;
}

static tg_front envelope(const tg_front *a, const tg_front *b)
{
    return (tg_front){smaller(a->base, b->base),
                      smaller(a->head, b->head),
                      smaller(a->tail, b->tail),
                      smaller(a->both, b->both),
                      smaller(a->e, b->e),
                      smaller(a->x, b->x),
                      a->rear_class};
}

/* Takes a front into the cell that the list ends with; false when memory is out. */
static bool take(tg_front_list *list, size_t start, tg_front fresh)
{
    for (;;) {
        size_t kept = start, nearest = start;
        int of_class = 0;
        double least = INFINITY;
        for (size_t i = start; i < list->count; i++)
            if (no_worse(&list->at[i], &fresh))
                return true;
        for (size_t i = start; i < list->count; i++) {
            if (no_worse(&fresh, &list->at[i]))
                continue;
            list->at[kept] = list->at[i];
            if (list->at[kept].rear_class == fresh.rear_class) {
                const double d = distance(&list->at[kept], &fresh);
                if (of_class++ == 0 || d < least) {
                    least = d;
                    nearest = kept;
                }
            }
            kept++;
        }
        list->count = kept;
        if (of_class < MOST_OF_CLASS)
            return tg_front_list_push(list, fresh);
        fresh = envelope(&fresh, &list->at[nearest]);
        list->at[nearest] = list->at[--list->count];
    }
}

/* A front as a function of what is behind its rear plan's transfer, from one of what the content's map gives. */
static tg_front put_behind(const tg_problem *problem, const tg_front *front, double c, const tg_content *content, int n,
                           int rear_class)
{
    const int N = problem->most_stages;
    const double *maps = content->maps + n, r = content->r, starve = (problem->microbatches - 1) * c;
    const double h = maps[TG_H * N], t = maps[TG_T * N], e = front->e + 2 * c, x = front->x + c;
    const double head = 2 * c + larger(front->head, starve + front->e),
                 tail = 2 * c + larger(front->tail, starve + front->e), both = front->both + 4 * c;
    const double base = larger(larger(head + h, tail + t), larger(both + h + t, front->base));
    return (tg_front){.base = larger(base, larger(maps[TG_A0 * N] + e, maps[TG_X0 * N] + x)),
                      .head = larger(larger(r + head, r + t + both), larger(maps[TG_AH * N] + e, maps[TG_XH * N] + x)),
                      .tail = larger(larger(r + tail, r + h + both), larger(maps[TG_AT * N] + e, maps[TG_XT * N] + x)),
                      .both = larger(2 * r + both, larger(maps[TG_A2 * N] + e, maps[TG_X2 * N] + x)),
                      .e = larger(r + e, content->e + x),
                      .x = content->f + x,
                      .rear_class = rear_class};
}

/* Takes the fronts that end in an edge's piece at n of the row into the cell at the list's end. */
static bool take_edge(tg_tables *tables, int row, int n, tg_edge *edge, size_t start, bool *any)
{
    static const tg_front nothing = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0, 0};
    const tg_problem *problem = tables->problem;
    tg_fronts *fronts = &tables->fronts;
    const tg_piece *piece = &problem->piece[edge->piece];
    const tg_row *at = &tables->rows.at[row], *target = &tables->rows.at[edge->target];
    const int m = n + piece->stage_count;
    if (n < piece->min_successors || n > piece->max_successors || m < target->low || m > target->high)
        return true;
    const tg_content *content = &problem->content[piece->content];
    const size_t here = at->at + (size_t)(n - at->low), there = target->at + (size_t)(m - target->low);
    const double c = tables->transfers.at[(size_t)row * (size_t)problem->classes + (size_t)piece->rear_class];
    const double *label = tables->values + here;
    const size_t room = tables->values_room;
    for (int i = 0; i < (target->boundary ? fronts->count[there] : 1); i++) {
        const tg_front *front = target->boundary ? &fronts->list.at[fronts->start[there] + (size_t)i] : &nothing;
        const double between_s =
            target->boundary ? tg_problem_transfer_s(problem, target->boundary, front->rear_class, piece->front_class)
                             : 0;
        const tg_front longer = put_behind(problem, front, between_s, content, n, piece->rear_class);
        if (!(total(&longer, problem->microbatches, c, label[TG_HEAD * room], label[TG_TAIL * room], label[TG_E * room],
                    label[TG_X * room]) < tables->limit))
            continue;
        *any = true;
        if (!take(&fronts->list, start, longer))
            return false;
    }
    return true;
}

static bool make_room(tg_fronts *fronts, size_t count)
{
    if (count <= fronts->room)
        return true;
    fronts->room = 0;
    free(fronts->start);
    free(fronts->count);
    fronts->start = malloc((count + count / 2) * sizeof *fronts->start);
    fronts->count = malloc((count + count / 2) * sizeof *fronts->count);
    fronts->room = fronts->start && fronts->count ? count + count / 2 : 0;
    return fronts->room > 0;
}

tg_status tg_fronts_make(tg_tables *tables, tg_error *err)
{
    tg_fronts *fronts = &tables->fronts;
    bool fits = make_room(fronts, tables->values_count);
    fronts->list.count = 0;
    for (size_t i = 0; fits && i < tables->values_count; i++) {
        fronts->start[i] = 0;
        fronts->count[i] = 0;
    }
    for (int i = 1; i <= tables->problem->atoms && fits; i++)
        for (int at = tables->head[i]; at >= 0 && fits; at = tables->rows.at[at].next) {
            const tg_row *row = &tables->rows.at[at];
            for (int n = row->low; n <= row->high && fits && !tg_halted(tables->halt, 8); n++) {
                const size_t cell = row->at + (size_t)(n - row->low), start = fronts->list.count;
                for (size_t k = row->first_edge; k < row->first_edge + row->edges && fits; k++) {
                    bool any = false;
                    if (tables->edges.at[k].least < tables->limit)
                        fits = take_edge(tables, at, n, &tables->edges.at[k], start, &any);
                }
                fronts->start[cell] = start;
                fronts->count[cell] = (int)(fronts->list.count - start);
            }
        }
    return fits ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}
