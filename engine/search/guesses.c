/* Round 0: what is asked for before any pair's bound is looked at, so that there is a plan to beat. */
#include "search/pairs.h"

enum { SUBSET_ISLANDS = 6 /* up to so many, all subsets of islands in front are gone through */ };

/* The atom behind the first share of the model's work. */
static int cut_at(const tg_problem *problem, double share)
{
    double total = 0, sum = 0;
    for (int i = 0; i < problem->atom_count; i++)
        total += problem->flops[i];
    int cut = 0;
    while (cut < problem->atom_count && sum + problem->flops[cut] / 2 < share * total)
        sum += problem->flops[cut++];
    return share >= 1 ? problem->atom_count : cut;
}

static const tg_pair *pair_of(const tg_run *run, int island, int first, int last)
{
    /* the place in the list of tg_run_list_pairs */
    long n = run->problem->atom_count, before = (long)first * n - (long)first * (first - 1) / 2;
    return &run->pairs[(before + last - first - 1) * run->problem->island_count + island];
}

static tg_status guess(const tg_run *run, const tg_level *level, int island, int first, int last, tg_ask_vec *out,
                       tg_error *err)
{
    if (first >= last)
        return TG_OK;
    const tg_pair *pair = pair_of(run, island, first, last);
    const tg_pair_class *class = &level->classes[pair->class];
    if (pair->dropped_by || !class->kept)
        return TG_OK;
    tg_ask ask = {.class = pair->class, .successors = tg_first_successors(run->problem, class)};
    return tg_ask_vec_push(out, ask) ? TG_OK : tg_fail(err, TG_EMEMORY, "out of memory");
}

static double share_of(const tg_problem *problem, int island)
{
    double all = 0;
    for (int i = 0; i < problem->island_count; i++)
        all += problem->islands[i].compute_flops * (double)problem->islands[i].gpus;
    return problem->islands[island].compute_flops * (double)problem->islands[island].gpus / all;
}

/* Round 0: each island alone, and behind each subset of the others the slice that its share of the speed asks for. Past
 * SUBSET_ISLANDS islands only the subsets of two orders, as listed and reversed. */
static tg_status list_guesses(const tg_run *run, const tg_level *level, tg_ask_vec *out, tg_error *err)
{
    const tg_problem *problem = run->problem;
    int n = problem->island_count;
    tg_status status = TG_OK;
    for (int island = 0; island < n && status == TG_OK; island++) {
        status = guess(run, level, island, 0, problem->atom_count, out, err);
        double mine = share_of(problem, island);
        if (n <= SUBSET_ISLANDS) {
            for (unsigned set = 0; set < 1u << n && status == TG_OK; set++) {
                double front = 0;
                for (int i = 0; i < n; i++)
                    front += set >> i & 1 ? share_of(problem, i) : 0;
                if (!(set >> island & 1))
                    status = guess(run, level, island, cut_at(problem, front), cut_at(problem, front + mine), out, err);
            }
        } else {
            double before = 0;
            for (int i = 0; i < island; i++)
                before += share_of(problem, i);
            status = guess(run, level, island, cut_at(problem, before), cut_at(problem, before + mine), out, err);
            if (status == TG_OK)
                status = guess(run, level, island, cut_at(problem, 1 - before - mine), cut_at(problem, 1 - before), out,
                               err);
        }
    }
    return status;
}

tg_status tg_level_guess(tg_run *run, tg_level *level, tg_error *err)
{
    tg_ask_vec guesses = {0};
    tg_status status = list_guesses(run, level, &guesses, err);
    if (status == TG_OK)
        status = tg_level_ask(run, level, guesses.at, guesses.count, err);
    tg_ask_vec_free(&guesses);
    return status;
}
