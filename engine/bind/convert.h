/* Reading arguments. Indices count from 1 in Lua and from 0 in C, runs are inclusive in Lua and half open in C:
 * converted here and nowhere else. All of these raise an error that names the field and what was expected. */
#ifndef TG_BIND_CONVERT_H
#define TG_BIND_CONVERT_H

#include <lauxlib.h>
#include <lua.h>

#include "base/base.h"

/* The table at index has no other fields than names (a list that ends with NULL). */
void tg_check_fields(lua_State *L, int index, const char *const *names);

/* Field name of the table at index, a finite number. */
double tg_number_field(lua_State *L, int index, const char *name);
double tg_number_field_or(lua_State *L, int index, const char *name, double missing);

/* Field name of the table at index, an integer within [low, high]. */
int tg_integer_field(lua_State *L, int index, const char *name, int low, int high);
int tg_integer_field_or(lua_State *L, int index, const char *name, int low, int high, int missing);

/* Arguments arg and arg + 1: the first and the last of a run, inclusive; out [first, last). */
void tg_check_run(lua_State *L, int arg, int *first, int *last);

/* Argument arg, an integer within [low, high]. */
int tg_check_integer(lua_State *L, int arg, int low, int high);

#endif
