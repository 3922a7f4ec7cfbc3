/* Reading JSON strictly, with the place in each error (plans[3].stages[0].forward_s: …), and writing it. */
#ifndef TG_JSON_H
#define TG_JSON_H

#include <cjson/cJSON.h>

#include "base/base.h"

/* A value and the way to it; lives on the stack of whoever walks the document. item is NULL where an optional field is
 * absent. */
typedef struct tg_json {
    const cJSON *item;
    const struct tg_json *parent;
    const char *key; /* NULL: an element of an array */
    int index;
} tg_json;

/* Parses one document. TG_EINPUT: "line:column: …" for a syntax error; "path: …" for a duplicate key, a number out of
 * double's range or more than 64 levels. The caller releases *root with cJSON_Delete. */
tg_status tg_json_parse(const char *text, size_t size, cJSON **root, tg_error *err);
tg_json tg_json_root(const cJSON *root);

/* TG_EINPUT "path: message", the message alone at the root; it is in printf style. */
tg_status tg_json_fail(const tg_json *at, tg_error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Checks that at is an object with no field but these. */
tg_status tg_json_object(const tg_json *at, const char *const *fields, size_t count, tg_error *err);
/* The field of an object; refused if absent and required. */
tg_status tg_json_field(const tg_json *object, const char *name, bool required, tg_json *out, tg_error *err);
/* Checks that at is an array of least to most elements. */
tg_status tg_json_array(const tg_json *at, int least, int most, int *count, tg_error *err);
/* Walks an array: first sets *element to its first element, next to the one behind; false at the end. */
bool tg_json_first(const tg_json *array, tg_json *element);
bool tg_json_next(tg_json *element);

/* The value at `at`, or with _field that of an object's required field; bounds are inclusive. */
tg_status tg_json_number(const tg_json *at, double least, double most, double *out, tg_error *err);
tg_status tg_json_int(const tg_json *at, int least, int most, int *out, tg_error *err);
tg_status tg_json_string(const tg_json *at, const char **out, tg_error *err);
tg_status tg_json_number_field(const tg_json *object, const char *name, double least, double most, double *out,
                               tg_error *err);
tg_status tg_json_int_field(const tg_json *object, const char *name, int least, int most, int *out, tg_error *err);

/* Text under construction. After any failure (memory) failed is true and the rest does nothing. */
typedef struct {
    char *at;
    size_t count, room;
    bool failed;
} tg_text;
void tg_text_add(tg_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tg_text_string(tg_text *text, const char *string); /* quoted and escaped */
char *tg_text_take(tg_text *text);                      /* malloc'ed and ended by NUL; NULL when memory was out */

#endif
