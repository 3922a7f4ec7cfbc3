/* A composition instance made ready for the search: equal islands joined into kinds, equal plans into contents. Private
 * to the composer. */
#ifndef TG_PIPELINE_PROBLEM_H
#define TG_PIPELINE_PROBLEM_H

#include "pipeline/halt.h"

/* What a plan's stages take, apart from where the plan stands. As a map of what is behind it (maxplus.h): r, e, f. */
typedef struct {
    const tg_stage_time *stages;
    const double *inner_transfer_s;
    int stage_count;
    double r, e, f;
    double serial_s;     /* no suffix that starts with it has a lower E: B (f+b) of a stage (paper: its own T) */
    double bottleneck_s; /* no sequence with it takes less: B (f+b) + g of a stage (paper: its own T) */
    double front_s;      /* f + b of the front stage */
    double *maps;        /* a0, a1, a2, x0, x1, x2, each by n; NULL until needed */
} tg_content;

TG_VEC(tg_contents, tg_content);

/* A plan of a kind's first island. */
typedef struct {
    double bottleneck_s; /* the content's */
    int content, plan;   /* plan: rank among the island's plans in the order of tg_problem.rank */
    int first, min_successors, max_successors;
    int16_t kind, stage_count;
    int16_t front_class, rear_class; /* canonical classes */
} tg_piece;

/* The plans of one kind for one slice; its pieces are [begin, end), lowest bottleneck_s first. */
typedef struct {
    int kind, first, begin, end, plans;
    double least_s; /* of any plan's bottleneck_s */
} tg_group;

/* A plan of a kind's first island, by its place in `rank`. */
typedef struct {
    int rank, content;
} tg_listed;

typedef struct {
    const tg_instance *instance;
    const tg_compose_options *options;
    int microbatches, atoms;
    int kinds;
    int *members;      /* islands, kind by kind, ascending in each */
    int *member_start; /* kinds + 1 */
    int *rank;         /* instance plans, island by island, each by first atoms: equal islands agree rank by rank */
    int *rank_start;   /* islands + 1 */
    int classes;       /* canonical: those of the kinds' first islands */
    int *class_kind;
    int *canonical, *kind_of;       /* of the instance's classes; of its islands, -1: without plans */
    double *latency_s, *per_byte_s; /* classes * classes; infinite without a link. Same kind: between two members */
    int *content_of;                /* instance plans */
    int contents;
    tg_content *content;
    tg_listed *listed; /* plans of the kinds' first islands by last, kind, first */
    tg_group *group;   /* likewise */
    int *group_start;  /* atoms + 2: those of last = i from group_start[i] to group_start[i + 1] */
    double most_s;     /* pieces are only those plans whose bottleneck_s is less */
    tg_piece *piece;   /* room for all that are listed */
    int most_stages;   /* no sequence has more */
    int required_kind; /* -1: none */
} tg_problem;

/* Joins equal islands and numbers the classes (kinds.c); a part of tg_problem_make. One without plans is left out, and
 * one that must be used keeps to itself. False when memory is out. */
bool tg_problem_find_kinds(tg_arena *arena, tg_problem *problem);

/* Makes the pieces of all plans whose bottleneck_s is below most_s, in place of those there were. */
void tg_problem_list_pieces(tg_problem *problem, double most_s);

/* Makes all but the pieces; of no use after a halt. What is large lies outside the arena: the caller releases it, also
 * after a failure. */
void tg_problem_free(tg_problem *problem);
tg_status tg_problem_make(tg_arena *arena, const tg_instance *instance, const tg_compose_options *options,
                          tg_halt *halt, tg_problem *out, tg_error *err);

static inline int tg_kind_size(const tg_problem *problem, int kind)
{
    return problem->member_start[kind + 1] - problem->member_start[kind];
}

/* Transfer over boundary i between a plan of rear class r and one of front class f. */
static inline double tg_problem_transfer_s(const tg_problem *problem, int boundary, int r, int f)
{
    int at = r * problem->classes + f;
    return problem->latency_s[at] + problem->instance->boundary_bytes[boundary - 1] * problem->per_byte_s[at];
}

#endif
