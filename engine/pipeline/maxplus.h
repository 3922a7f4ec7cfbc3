/* A plan as a max-plus map of the label of what stands behind it (COMPOSITION.md, section 9). Private to the composer.
 * With H = head + 2c, T = tail + 2c, M = max(H, T), c the transfer behind the plan and n the stages behind it:
 *   E'    = max(a0, aH + H, aT + T, a2 + H + T, r + 2c + E, r + (B-1)c + M)
 *   X'    = max(x0, xH + H, xT + T, x2 + H + T, e + 2c + E, e + (B-1)c + M, f + c + X)
 *   head' = max(h, r + H),  tail' = max(t, r + T)
 * where the constants hold what the plan's own stages wait for each other. For the rear stage (t = f + b) and the stage
 * right behind it (f+b = next), with w the most forwards that the rear stage may do first, k = w - (n-1) + 1, where B >
 * w + 1, also S  = B t + max(0, H - w f, next + 2c + (n-1-w) f) + max(0, T - w b, next + 2c + (n-1-w) b)
 *        + floor((B-2-w)/k) max(0, next + 2c - (k-1) t)
 *   E' >= r - t + S,   X' >= e - t + S.
 * Blocking p2p puts (B-2-w) (c + the transfer in front) + the transfer in front in place of the last term where that is
 * more, and has E >= B next + (B+n-2) c. */
#ifndef TG_PIPELINE_MAXPLUS_H
#define TG_PIPELINE_MAXPLUS_H

#include "pipeline/label.h"

enum { TG_A0, TG_AH, TG_AT, TG_A2, TG_X0, TG_XH, TG_XT, TG_X2, TG_H, TG_T, TG_CONSTANTS };

/* Works out the content's constants for n = 0 … problem->most_stages - 1, if that is not done yet. */
bool tg_content_ready(tg_arena *arena, const tg_problem *problem, tg_content *content);

/* Labels of suffixes with n = first, first + 1, … stages, side by side in columns `row` apart. The last one is f+b of
 * their front stages. */
enum { TG_HEAD, TG_TAIL, TG_E, TG_X, TG_NEXT, TG_LABEL_COLUMNS };

/* Puts the content in front of count suffixes of n = first … over a transfer. to may not overlap from. */
void tg_content_apply(const tg_problem *problem, const tg_content *content, double transfer_s, int first, int count,
                      const double *from, size_t row, double *to, size_t to_row);

#endif
