#include "base/base.h"

#include <string.h>

enum { LONGEST = 64 };

/* Optimal string alignment distance; words longer than LONGEST count as far apart. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *twice = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && twice[j - 2] + 1 < best)
                best = twice[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *tg_nearest(const char *word, const char *const *words, size_t count)
{
    size_t limit = strlen(word) / 3 < 2 ? 2 : strlen(word) / 3;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, words[i]);
        if (d <= limit && d < strlen(words[i])) {
            limit = d ? d - 1 : 0;
            nearest = words[i];
            if (d == 0)
                break;
        }
    }
    return nearest;
}
