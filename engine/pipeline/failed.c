#include "pipeline/failed.h"

enum { MOST_NUMBERS = 1 << 22, MOST_LOOKS = 48 };

bool tg_failed_make(tg_arena *arena, const tg_problem *problem, tg_failed *out)
{
    *out = (tg_failed){.wanted = tg_arena_alloc(arena, 6 * (size_t)problem->most_stages + 2, sizeof(double))};
    return out->wanted != NULL;
}

void tg_failed_free(tg_failed *failed)
{
    tg_ints_free(&failed->first);
    tg_failed_entries_free(&failed->entries);
    tg_doubles_free(&failed->numbers);
}

bool tg_failed_clear(tg_failed *failed, size_t rows)
{
    failed->first.count = failed->entries.count = failed->numbers.count = 0;
    for (size_t i = 0; i < rows; i++)
        if (!tg_ints_push(&failed->first, -1))
            return false;
    return true;
}

/* Fills wanted; returns the count of numbers. The paper's estimate needs only latency and T. */
static size_t describe(tg_failed *failed, const tg_problem *problem, const tg_chain *chain, const tg_label *label)
{
    const int B = problem->microbatches;
    double *to = failed->wanted, path = 0, f = 0, b = 0, c = 0;
    size_t count = 0;
    to[count++] = label->e;
    to[count++] = label->x;
    if (problem->options->objective == TG_PAPER) {
        to[1] = label->head;
        return count;
    }
    for (int u = chain->count - 1; u >= 0; u--) {
        path += chain->time_s[u];
        f = chain->stage[u]->forward_s > f ? chain->stage[u]->forward_s : f;
        b = chain->stage[u]->backward_s > b ? chain->stage[u]->backward_s : b;
        to[count++] = path;
        to[count++] = f;
        to[count++] = b;
        to[count++] = path + (B - tg_least_depth(chain->least[u], B - 1) - 1) * chain->time_s[u];
        to[count++] = f > c ? f : c;
        to[count++] = b > c ? b : c;
        path += 2 * chain->transfer_s[u];
        c = chain->transfer_s[u] > c ? chain->transfer_s[u] : c;
    }
    return count;
}

bool tg_failed_covers(tg_failed *failed, const tg_problem *problem, int row, int front_class, const tg_chain *chain,
                      const tg_label *label)
{
    if (failed->first.at[row] < 0)
        return false;
    const size_t count = describe(failed, problem, chain, label);
    int *link = &failed->first.at[row];
    for (int looks = 0; *link >= 0 && looks < MOST_LOOKS; looks++) {
        const int at = *link;
        tg_failed_entry *entry = &failed->entries.at[at];
        const double *numbers = &failed->numbers.at[entry->at];
        size_t i = entry->n == chain->count && entry->front_class == front_class ? 0 : count + 1;
        while (i < count && numbers[i] <= failed->wanted[i])
            i++;
        if (i == count) { /* to the front: it may serve again */
            *link = entry->next;
            entry->next = failed->first.at[row];
            failed->first.at[row] = at;
            return true;
        }
        link = &entry->next;
    }
    return false;
}

bool tg_failed_add(tg_failed *failed, const tg_problem *problem, int row, int front_class, const tg_chain *chain,
                   const tg_label *label)
{
    const size_t count = describe(failed, problem, chain, label);
    if (failed->numbers.count + count > MOST_NUMBERS)
        return true;
    const tg_failed_entry entry = {failed->first.at[row], chain->count, front_class, failed->numbers.count};
    for (size_t i = 0; i < count; i++)
        if (!tg_doubles_push(&failed->numbers, failed->wanted[i]))
            return false;
    failed->first.at[row] = (int)failed->entries.count;
    return tg_failed_entries_push(&failed->entries, entry);
}
