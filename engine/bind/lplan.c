/* Plans as text: the check and the simulation of a plan file (pipeline/plan.h). */
#include "bind/convert.h"
#include "bind/core.h"
#include "pipeline/plan.h"

/* Pushes the arena that all of the plan lives in. */
static tg_status read_plan(lua_State *L, int arg, tg_plan *plan, tg_error *err)
{
    size_t size;
    const char *text = luaL_checklstring(L, arg, &size);
    return tg_plan_read(tg_push_arena(L), text, size, plan, err);
}

/* core.plan_check(text) -> true | nil, why. text: a tangram.plan/1 document; why: "stages[2].gpus[0]: …" */
static int plan_check(lua_State *L)
{
    tg_plan plan;
    tg_error err;
    if (read_plan(L, 1, &plan, &err) != TG_OK || tg_plan_check(&plan, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushboolean(L, true);
    return 1;
}

/* core.plan_simulate(text) -> time_s, operations | nil, why. Each operation: { stage, microbatch, backward, start_s,
 * end_s }, in order of stage, then of the stage's own execution. The plan is read but not checked. */
static int plan_simulate(lua_State *L)
{
    tg_plan plan;
    tg_error err;
    if (read_plan(L, 1, &plan, &err) != TG_OK)
        return tg_push_failure(L, &err);
    size_t count = 2 * (size_t)plan.stages * (size_t)plan.microbatches;
    tg_operation *operations = lua_newuserdatauv(L, count * sizeof *operations, 0);
    double time_s;
    if (tg_plan_simulate(&plan, &time_s, operations, &err) != TG_OK)
        return tg_push_failure(L, &err);
    lua_pushnumber(L, time_s);
    tg_push_operations(L, operations, count);
    return 2;
}

void tg_open_plan(lua_State *L)
{
    static const luaL_Reg functions[] = {{"plan_check", plan_check}, {"plan_simulate", plan_simulate}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
