#include "search/pairs.h"

static tg_status find_classes(tg_run *run, tg_error *err)
{
    const tg_problem *problem = run->problem;
    run->first_class = tg_arena_alloc(run->arena, (size_t)problem->island_count, sizeof *run->first_class);
    if (!run->first_class)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    for (int pass = 0; pass < 2; pass++) {
        int count = 0;
        for (int i = 0; i < problem->island_count; i++) {
            const tg_end_class *ends;
            size_t n = tg_end_classes(run->arena, &problem->islands[i], &ends);
            if (!ends)
                return tg_fail(err, TG_EMEMORY, "out of memory");
            run->first_class[i] = count;
            for (size_t e = 0; e < n; e++, count++)
                if (pass == 1)
                    run->link_classes[count] = (tg_link_class){.island = i, .end = ends[e]};
        }
        if (pass == 0)
            run->link_classes = tg_arena_alloc(run->arena, (size_t)count, sizeof *run->link_classes);
        if (!run->link_classes)
            return tg_fail(err, TG_EMEMORY, "out of memory");
        run->link_class_count = count;
    }
    return TG_OK;
}

tg_status tg_run_link(tg_run *run, tg_error *err)
{
    const tg_problem *problem = run->problem;
    tg_status status = find_classes(run, err);
    if (status != TG_OK)
        return status;
    size_t n = (size_t)run->link_class_count;
    tg_link *links = tg_arena_alloc(run->arena, n * n, sizeof *links);
    int *class_island = tg_arena_alloc(run->arena, n, sizeof *class_island);
    if (!links || !class_island)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    run->links = links;
    run->class_island = class_island;
    for (size_t r = 0; r < n; r++) {
        const tg_link_class *rear = &run->link_classes[r];
        class_island[r] = rear->island;
        for (size_t f = 0; f < n && status == TG_OK; f++) {
            const tg_link_class *front = &run->link_classes[f];
            if (rear->island == front->island)
                continue;
            tg_transfer transfer = tg_transfer_between(problem->cluster, &problem->islands[rear->island], rear->end,
                                                       &problem->islands[front->island], front->end);
            links[r * n + f] = (tg_link){.latency_s = transfer.latency_s, .bytes_per_s = transfer.bytes_per_s};
            if (run->provider->link)
                status = run->provider->link(run->provider->self, rear->island, front->island, &links[r * n + f], err);
        }
    }
    return status;
}
