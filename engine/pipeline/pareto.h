/* Pareto sets of rows of numbers. */
#ifndef TG_PIPELINE_PARETO_H
#define TG_PIPELINE_PARETO_H

#include "base/base.h"

/* keep[i] becomes false for each of count rows (width numbers each, less is better) that another row is no worse than
 * in all numbers; of equal rows the first stays. */
void tg_pareto_filter(const double *rows, size_t count, size_t width, bool *keep);

#endif
