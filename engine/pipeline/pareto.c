#include "pipeline/pareto.h"

static bool no_worse(const double *a, const double *b, size_t width)
{
    for (size_t k = 0; k < width; k++)
        if (!(a[k] <= b[k]))
            return false;
    return true;
}

void tg_pareto_filter(const double *rows, size_t count, size_t width, bool *keep)
{
    for (size_t i = 0; i < count; i++) {
        keep[i] = true;
        for (size_t k = 0; k < i && keep[i]; k++)
            keep[i] = !(keep[k] && no_worse(rows + k * width, rows + i * width, width));
        for (size_t k = 0; k < i && keep[i]; k++)
            keep[k] = keep[k] && !no_worse(rows + i * width, rows + k * width, width);
    }
}
