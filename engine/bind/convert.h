/* Reading arguments and filling tables. Indices count from 1 in Lua and from 0 in C, runs are inclusive in Lua and half
 * open in C: converted here and nowhere else. Readers raise an error that names the field and what was expected. */
#ifndef TG_BIND_CONVERT_H
#define TG_BIND_CONVERT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>

#include "base/base.h"
#include "pipeline/simulate.h"

/* The table at index has no other fields than names (a list that ends with NULL). */
void tg_check_fields(lua_State *L, int index, const char *const *names);

/* Field name of the table at index, a finite number. */
double tg_number_field(lua_State *L, int index, const char *name);
double tg_number_field_or(lua_State *L, int index, const char *name, double missing);

/* Field name of the table at index, an integer within [low, high]. */
int tg_integer_field(lua_State *L, int index, const char *name, int low, int high);
int tg_integer_field_or(lua_State *L, int index, const char *name, int low, int high, int missing);

/* Field name of argument 1, a list of count values: finite numbers of at least 0, or booleans. In memory that lives
 * while it stays on the stack: pushes one value. One that is missing and not needed is all 0 or false. */
const double *tg_amounts_field(lua_State *L, const char *name, int count, bool needed);
const bool *tg_flags_field(lua_State *L, const char *name, int count, bool needed);

/* Arguments arg and arg + 1: the first and the last of a run, inclusive; out [first, last). */
void tg_check_run(lua_State *L, int arg, int *first, int *last);

/* Argument arg, an integer within [low, high]. */
int tg_check_integer(lua_State *L, int arg, int low, int high);

/* Field name of the table at the top of the stack becomes x. */
void tg_set_integer(lua_State *L, const char *name, lua_Integer x);
void tg_set_count(lua_State *L, const char *name, size_t x);
void tg_set_number(lua_State *L, const char *name, double x);
void tg_set_text(lua_State *L, const char *name, const char *x);
void tg_set_boolean(lua_State *L, const char *name, bool x);

/* Pushes a list of { stage, microbatch, backward, start_s, end_s }. */
void tg_push_operations(lua_State *L, const tg_operation *operations, size_t count);

#endif
