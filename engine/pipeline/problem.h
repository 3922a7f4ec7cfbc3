/* A composition instance made ready for the search: equal islands joined into kinds, equal plans into contents. Private
 * to the composer. */
#ifndef TG_PIPELINE_PROBLEM_H
#define TG_PIPELINE_PROBLEM_H

#include "pipeline/compose.h"

/* A plan as a max-plus map (COMPOSITION.md, section 9). With R' = R + 2c, c the transfer behind the plan:
 *   E' = max(a0, a1 + R', a2 + 2R', r + 2c + E, r + (B-1)c + R')
 *   X' = max(x0, x1 + R', x2 + 2R', e + 2c + E, e + (B-1)c + R', f + c + X),   R'' = r + R'.
 * The constants hold the plan's own idle and loop terms at n stages behind it. */
typedef struct {
    double a0, a1, a2, x0, x1, x2;
} tg_map;

/* What a plan's stages take, apart from where the plan stands. */
typedef struct {
    const tg_stage_time *stages;
    const double *inner_transfer_s;
    int stage_count;
    double r, e, f;      /* of the map */
    double bottleneck_s; /* no sequence with it takes less: B (f+b) + g of a stage (paper: its own T) */
    double front_s;      /* t = f+b of the front stage */
    double rear_s, rear_forward_s, rear_backward_s,
        rear_sync_s;               /* of the rear stage, for the loop over the outer link */
    double rear_lead, rear_lead_f; /* Σ (t + 2 inner c) and Σ (f + inner c) in front of the rear stage */
    tg_map *maps;                  /* by n; NULL until needed */
} tg_content;

/* A plan of a kind's first island. */
typedef struct {
    int content, plan; /* plan: rank among the island's plans in the order of tg_problem.rank */
    int first, kind, stage_count;
    int front_class, rear_class; /* canonical classes */
    int min_successors, max_successors;
} tg_piece;

typedef struct {
    const tg_instance *instance;
    const tg_compose_options *options;
    int microbatches, atoms;
    int kinds;
    int *members;      /* islands, kind by kind, ascending in each */
    int *member_start; /* kinds + 1 */
    int *rank; /* instance plans, island by island, each in one canonical order: equal islands agree rank by rank */
    int *rank_start; /* islands + 1 */
    int classes;     /* canonical: those of the kinds' first islands */
    int *class_kind;
    double *latency_s, *per_byte_s; /* classes * classes; infinite without a link. Same kind: between two members */
    int contents;
    tg_content *content;
    int pieces;
    tg_piece *piece;
    int *piece_start;  /* atoms + 1: pieces by last, those of last = i at piece_start[i - 1] … piece_start[i] */
    int most_stages;   /* no sequence has more */
    int required_kind; /* -1: none */
} tg_problem;

tg_status tg_problem_make(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                          tg_problem *out, tg_error *err);

/* Transfer over boundary i between a plan of rear class r and one of front class f. */
static inline double tg_problem_transfer_s(const tg_problem *problem, int boundary, int r, int f)
{
    int at = r * problem->classes + f;
    return problem->latency_s[at] + problem->instance->boundary_bytes[boundary - 1] * problem->per_byte_s[at];
}

#endif
