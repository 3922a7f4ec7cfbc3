#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LEVELS = 64, PATH_BYTES = 256 };

tg_json tg_json_root(const cJSON *root)
{
    return (tg_json){.item = root};
}

static void write_path(const tg_json *at, char *path, size_t size)
{
    if (!at->parent) {
        path[0] = '\0';
        return;
    }
    write_path(at->parent, path, size);
    size_t used = strlen(path);
    if (at->key)
        snprintf(path + used, size - used, "%s%.64s", used ? "." : "", at->key);
    else
        snprintf(path + used, size - used, "[%d]", at->index);
}

tg_status tg_json_fail(const tg_json *at, tg_error *err, const char *format, ...)
{
    char path[PATH_BYTES], message[PATH_BYTES];
    write_path(at, path, sizeof path);
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tg_fail(err, TG_EINPUT, "%s%s%s", path, path[0] ? ": " : "", message);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tg_status check_keys(const tg_json *at, tg_error *err)
{
    size_t count = 0;
    for (const cJSON *field = at->item->child; field; field = field->next)
        count++;
    if (count < 2)
        return TG_OK;
    const char **keys = malloc(count * sizeof *keys);
    if (!keys)
        return tg_fail(err, TG_EMEMORY, "out of memory");
    count = 0;
    for (const cJSON *field = at->item->child; field; field = field->next)
        keys[count++] = field->string;
    qsort(keys, count, sizeof *keys, compare_keys);
    tg_status status = TG_OK;
    for (size_t i = 1; i < count && status == TG_OK; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            status = tg_json_fail(at, err, "field '%.64s' is given twice", keys[i]);
    free(keys);
    return status;
}

/* What cJSON lets pass: duplicate keys, numbers past double's range, deep nesting. */
static tg_status check(const tg_json *at, int level, tg_error *err)
{
    if (level > MOST_LEVELS)
        return tg_json_fail(at, err, "nested deeper than %d levels", MOST_LEVELS);
    if (cJSON_IsNumber(at->item) && !isfinite(at->item->valuedouble))
        return tg_json_fail(at, err, "the number is out of range");
    if (cJSON_IsObject(at->item)) {
        tg_status status = check_keys(at, err);
        if (status != TG_OK)
            return status;
    }
    int index = 0;
    for (const cJSON *item = at->item->child; item; item = item->next, index++) {
        const tg_json child = {item, at, cJSON_IsObject(at->item) ? item->string : NULL, index};
        if (!item->child && !cJSON_IsNumber(item))
            continue;
        tg_status status = check(&child, level + 1, err);
        if (status != TG_OK)
            return status;
    }
    return TG_OK;
}

/* Says where, and as far as cJSON lets one know why, the text is no document from end on. */
static tg_status refuse(const char *text, size_t size, const char *end, const char *why, tg_error *err)
{
    int line = 1, column = 1, level = 0;
    for (const char *at = text; at < end && at < text + size; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
        level += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
    }
    if (level >= CJSON_NESTING_LIMIT)
        return tg_fail(err, TG_EINPUT, "%d:%d: nested deeper than %d levels", line, column, MOST_LEVELS);
    return tg_fail(err, TG_EINPUT, "%d:%d: not JSON%s", line, column, why);
}

tg_status tg_json_parse(const char *text, size_t size, cJSON **root, tg_error *err)
{
    const char *end = text, *stop = text + size, *nul = memchr(text, 0, size);
    *root = NULL;
    if (nul)
        return refuse(text, size, nul, ": a NUL byte", err);
    cJSON *parsed = cJSON_ParseWithLengthOpts(text, size, &end, false);
    if (!parsed)
        return refuse(text, size, end, end + 1 >= stop ? ", or cut short" : "", err);
    while (end < stop && strchr(" \t\r\n", *end))
        end++;
    const tg_json at = tg_json_root(parsed);
    tg_status status = end < stop ? refuse(text, size, end, ": text behind the document", err) : check(&at, 0, err);
    if (status == TG_OK)
        *root = parsed;
    else
        cJSON_Delete(parsed);
    return status;
}

static const char *kind_name(const cJSON *item)
{
    if (!item)
        return "nothing";
    if (cJSON_IsNull(item))
        return "null";
    if (cJSON_IsBool(item))
        return "a boolean";
    if (cJSON_IsNumber(item))
        return "a number";
    if (cJSON_IsString(item))
        return "a string";
    return cJSON_IsArray(item) ? "an array" : "an object";
}

tg_status tg_json_object(const tg_json *at, const char *const *fields, size_t count, tg_error *err)
{
    if (!cJSON_IsObject(at->item))
        return tg_json_fail(at, err, "expected an object, got %s", kind_name(at->item));
    for (const cJSON *field = at->item->child; field; field = field->next) {
        size_t i = 0;
        while (i < count && strcmp(fields[i], field->string) != 0)
            i++;
        if (i < count)
            continue;
        const char *nearest = tg_nearest(field->string, fields, count);
        const tg_json unknown = {field, at, field->string, 0};
        return nearest ? tg_json_fail(&unknown, err, "unknown field (did you mean '%s'?)", nearest)
                       : tg_json_fail(&unknown, err, "unknown field");
    }
    return TG_OK;
}

tg_status tg_json_field(const tg_json *object, const char *name, bool required, tg_json *out, tg_error *err)
{
    *out = (tg_json){cJSON_GetObjectItemCaseSensitive(object->item, name), object, name, 0};
    if (!out->item && required)
        return tg_json_fail(out, err, "this field is required");
    return TG_OK;
}

tg_status tg_json_array(const tg_json *at, int least, int most, int *count, tg_error *err)
{
    if (!cJSON_IsArray(at->item))
        return tg_json_fail(at, err, "expected an array, got %s", kind_name(at->item));
    *count = cJSON_GetArraySize(at->item);
    if (*count >= least && *count <= most)
        return TG_OK;
    if (least == most)
        return tg_json_fail(at, err, "expected %d elements, got %d", least, *count);
    return tg_json_fail(at, err, "expected %d to %d elements, got %d", least, most, *count);
}

bool tg_json_first(const tg_json *array, tg_json *element)
{
    *element = (tg_json){array->item->child, array, NULL, 0};
    return element->item != NULL;
}

bool tg_json_next(tg_json *element)
{
    element->item = element->item->next;
    element->index++;
    return element->item != NULL;
}

tg_status tg_json_number(const tg_json *at, double least, double most, double *out, tg_error *err)
{
    if (!cJSON_IsNumber(at->item))
        return tg_json_fail(at, err, "expected a number, got %s", kind_name(at->item));
    *out = at->item->valuedouble;
    if (!(*out >= least && *out <= most))
        return tg_json_fail(at, err, "expected a number from %g to %g, got %g", least, most, *out);
    return TG_OK;
}

tg_status tg_json_int(const tg_json *at, int least, int most, int *out, tg_error *err)
{
    if (!cJSON_IsNumber(at->item))
        return tg_json_fail(at, err, "expected a whole number, got %s", kind_name(at->item));
    double value = at->item->valuedouble;
    if (value != floor(value) || value < least || value > most)
        return tg_json_fail(at, err, "expected a whole number from %d to %d, got %.17g", least, most, value);
    *out = (int)value;
    return TG_OK;
}

tg_status tg_json_string(const tg_json *at, const char **out, tg_error *err)
{
    if (!cJSON_IsString(at->item))
        return tg_json_fail(at, err, "expected a string, got %s", kind_name(at->item));
    *out = at->item->valuestring;
    return TG_OK;
}

tg_status tg_json_number_field(const tg_json *object, const char *name, double least, double most, double *out,
                               tg_error *err)
{
    tg_json at;
    tg_status status = tg_json_field(object, name, true, &at, err);
    return status == TG_OK ? tg_json_number(&at, least, most, out, err) : status;
}

tg_status tg_json_int_field(const tg_json *object, const char *name, int least, int most, int *out, tg_error *err)
{
    tg_json at;
    tg_status status = tg_json_field(object, name, true, &at, err);
    return status == TG_OK ? tg_json_int(&at, least, most, out, err) : status;
}

void tg_text_add(tg_text *text, const char *format, ...)
{
    for (;;) {
        if (text->failed)
            return;
        va_list args;
        va_start(args, format);
        size_t left = text->room - text->count;
        int wrote = vsnprintf(text->at ? text->at + text->count : NULL, left, format, args);
        va_end(args);
        if (wrote >= 0 && (size_t)wrote < left) {
            text->count += (size_t)wrote;
            return;
        }
        text->failed = wrote < 0 || !tg_vec_grow((void **)&text->at, &text->room, 1);
    }
}

void tg_text_string(tg_text *text, const char *string)
{
    tg_text_add(text, "\"");
    for (const char *at = string; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\')
            tg_text_add(text, "\\%c", byte);
        else if (byte < 0x20)
            tg_text_add(text, "\\u%04x", byte);
        else
            tg_text_add(text, "%c", byte);
    }
    tg_text_add(text, "\"");
}

char *tg_text_take(tg_text *text)
{
    char *at = text->at;
    if (text->failed) {
        free(at);
        at = NULL;
    }
    *text = (tg_text){0};
    return at;
}
