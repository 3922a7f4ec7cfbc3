/* Cluster: nodes and links, checked and copied by the engine. */
#include "bind/lcluster.h"

#include <string.h>

#include "bind/core.h"

#define CLUSTER "tangram.cluster"

typedef struct {
    tg_arena arena;
    tg_cluster cluster; /* no node: closed */
} cluster_ud;

static cluster_ud *push_cluster(lua_State *L)
{
    cluster_ud *u = lua_newuserdatauv(L, sizeof *u, 0);
    *u = (cluster_ud){0};
    luaL_setmetatable(L, CLUSTER);
    return u;
}

const tg_cluster *tg_check_cluster(lua_State *L, int index)
{
    cluster_ud *u = luaL_checkudata(L, index, CLUSTER);
    luaL_argcheck(L, u->cluster.node_count > 0, index, "the cluster is closed");
    return &u->cluster;
}

int tg_cluster_failure(lua_State *L, tg_status status, const tg_error *err)
{
    return status == TG_EMEMORY ? luaL_error(L, "%s", err->message) : tg_push_failure(L, err);
}

void tg_push_rate(lua_State *L, const tg_rate *rate)
{
    lua_createtable(L, (int)rate->count, 0);
    for (size_t i = 0; i < rate->count; i++) {
        lua_createtable(L, 2, 0);
        lua_pushinteger(L, (lua_Integer)rate->steps[i].size);
        lua_rawseti(L, -2, 1);
        lua_pushnumber(L, rate->steps[i].bytes_per_s);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

void *tg_need(lua_State *L, tg_arena *arena, size_t count, size_t size)
{
    void *at = tg_arena_alloc(arena, count, size);
    if (!at)
        luaL_error(L, "out of memory");
    return at;
}

size_t tg_node_at(lua_State *L, const tg_cluster *cluster, int index)
{
    if (lua_type(L, index) == LUA_TSTRING) {
        size_t n = tg_cluster_find(cluster, lua_tostring(L, index));
        if (n == cluster->node_count)
            luaL_error(L, "there is no node '%s'", lua_tostring(L, index));
        return n;
    }
    lua_Integer n = luaL_checkinteger(L, index);
    if (n < 1 || (lua_Unsigned)n > cluster->node_count)
        luaL_error(L, "there is no node %I", n);
    return (size_t)n - 1;
}

size_t *tg_pop_nodes(lua_State *L, const tg_cluster *cluster, tg_arena *arena, size_t *count)
{
    luaL_checktype(L, -1, LUA_TTABLE);
    *count = lua_rawlen(L, -1);
    size_t *nodes = tg_need(L, arena, *count, sizeof *nodes);
    for (size_t i = 0; i < *count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        nodes[i] = tg_node_at(L, cluster, lua_gettop(L));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return nodes;
}

/* The fields below are of the table at the top of the stack. Strings stay alive with the argument. */
static const char *text_field(lua_State *L, const char *name)
{
    const char *text = NULL;
    if (lua_getfield(L, -1, name) != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "%s: expected a string, got a %s", name, luaL_typename(L, -1));
        text = lua_tostring(L, -1);
    }
    lua_pop(L, 1);
    return text;
}

static double number_field(lua_State *L, const char *name, double missing)
{
    double x = missing;
    if (lua_getfield(L, -1, name) != LUA_TNIL) {
        if (lua_type(L, -1) != LUA_TNUMBER)
            luaL_error(L, "%s: expected a number, got a %s", name, luaL_typename(L, -1));
        x = lua_tonumber(L, -1);
    }
    lua_pop(L, 1);
    return x;
}

/* The whole number at the top of the stack, popped; what is below 0 counts as 0 for the engine to refuse. */
static size_t pop_count(lua_State *L, const char *name)
{
    int whole;
    lua_Integer count = lua_tointegerx(L, -1, &whole);
    if (!whole)
        luaL_error(L, "%s: expected a whole number", name);
    lua_pop(L, 1);
    return count > 0 ? (size_t)count : 0;
}

/* Pushes the list in field name and gives its length; 0 if it is not there. */
static size_t push_list(lua_State *L, const char *name)
{
    if (lua_getfield(L, -1, name) == LUA_TNIL)
        return 0;
    if (!lua_istable(L, -1))
        luaL_error(L, "%s: expected a list, got a %s", name, luaL_typename(L, -1));
    return lua_rawlen(L, -1);
}

static tg_rate rate_field(lua_State *L, tg_arena *arena, const char *name)
{
    size_t count = push_list(L, name);
    tg_rate_step *steps = tg_need(L, arena, count, sizeof *steps);
    for (size_t i = 0; i < count; i++) {
        if (lua_rawgeti(L, -1, (lua_Integer)i + 1) != LUA_TTABLE)
            luaL_error(L, "%s: expected a list of { size, bytes_per_s }", name);
        lua_rawgeti(L, -1, 1);
        steps[i].size = pop_count(L, name);
        lua_rawgeti(L, -1, 2);
        steps[i].bytes_per_s = luaL_checknumber(L, -1);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
    return (tg_rate){count, steps};
}

static tg_wire read_wire(lua_State *L, tg_arena *arena)
{
    return (tg_wire){rate_field(L, arena, "bytes_per_s"), number_field(L, "latency_s", 0)};
}

static tg_node_input read_node(lua_State *L, tg_arena *arena)
{
    tg_node_input node = {.name = text_field(L, "name"),
                          .intra = rate_field(L, arena, "intra_bytes_per_s"),
                          .intra_latency_s = number_field(L, "intra_latency_s", 0)};
    node.kind_count = push_list(L, "gpus");
    tg_gpu_kind *kinds = tg_need(L, arena, node.kind_count, sizeof *kinds);
    for (size_t k = 0; k < node.kind_count; k++) {
        if (lua_rawgeti(L, -1, (lua_Integer)k + 1) != LUA_TTABLE)
            luaL_error(L, "gpus: expected a list of tables");
        kinds[k] = (tg_gpu_kind){.gpu = text_field(L, "gpu"),
                                 .facts = text_field(L, "facts"),
                                 .compute_flops = number_field(L, "compute_flops", 0),
                                 .memory_bytes = number_field(L, "memory_bytes", 0)};
        lua_getfield(L, -1, "count");
        kinds[k].count = pop_count(L, "gpus: count");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    node.kinds = kinds;
    return node;
}

static void read_links(lua_State *L, tg_arena *arena, tg_cluster_input *input)
{
    tg_link_input *links = tg_need(L, arena, input->link_count, sizeof *links);
    for (size_t l = 0; l < input->link_count; l++) {
        if (lua_rawgeti(L, -1, (lua_Integer)l + 1) != LUA_TTABLE)
            luaL_error(L, "links: expected a list of tables");
        if (push_list(L, "between") != 2)
            luaL_error(L, "links: between: expected two names");
        for (int end = 0; end < 2; end++) {
            lua_rawgeti(L, -1, end + 1);
            links[l].between[end] = luaL_checkstring(L, -1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        links[l].wire = read_wire(L, arena);
        lua_pop(L, 1);
    }
    input->links = links;
}

/* From the table at the top of the stack. */
static tg_cluster_input read_input(lua_State *L, tg_arena *arena)
{
    tg_cluster_input input = {.node_count = push_list(L, "nodes")};
    tg_node_input *nodes = tg_need(L, arena, input.node_count, sizeof *nodes);
    for (size_t n = 0; n < input.node_count; n++) {
        if (lua_rawgeti(L, -1, (lua_Integer)n + 1) != LUA_TTABLE)
            luaL_error(L, "nodes: expected a list of tables");
        nodes[n] = read_node(L, arena);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    input.nodes = nodes;
    if (lua_getfield(L, -1, "default") == LUA_TTABLE) {
        tg_wire *wire = tg_need(L, arena, 1, sizeof *wire);
        *wire = read_wire(L, arena);
        input.default_wire = wire;
    }
    lua_pop(L, 1);
    input.link_count = push_list(L, "links");
    read_links(L, arena, &input);
    lua_pop(L, 1);
    return input;
}

/* core.cluster(t) -> Cluster | nil, why. t: nodes, each { name, gpus = { { gpu, count, compute_flops, memory_bytes,
 * facts } … } (several kinds: a virtual node each), intra_bytes_per_s = rate, intra_latency_s }; default (or none) = {
 * bytes_per_s = rate, latency_s }; links, each { between = { name, name }, bytes_per_s, latency_s }. A rate is a list
 * of { size, bytes_per_s }. */
static int new_cluster(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    cluster_ud *u = push_cluster(L);
    tg_arena *scratch = tg_push_arena(L);
    lua_pushvalue(L, 1);
    tg_cluster_input input = read_input(L, scratch);
    tg_error err;
    tg_status status = tg_cluster_build(&u->arena, &input, &u->cluster, &err);
    tg_arena_free(scratch);
    if (status != TG_OK) {
        u->cluster.node_count = 0;
        return tg_cluster_failure(L, status, &err);
    }
    lua_settop(L, 2);
    return 1;
}

/* cluster:cut(gpus) -> Cluster | nil, why: nodes of more GPUs, a multiple of it, cut into parts of that many */
static int cut(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    lua_Integer gpus = luaL_checkinteger(L, 2);
    cluster_ud *u = push_cluster(L);
    tg_error err;
    tg_status status = tg_cluster_cut(&u->arena, cluster, gpus > 0 ? (size_t)gpus : 0, &u->cluster, &err);
    if (status != TG_OK) {
        u->cluster.node_count = 0;
        return tg_cluster_failure(L, status, &err);
    }
    return 1;
}

static int close_cluster(lua_State *L)
{
    cluster_ud *u = luaL_checkudata(L, 1, CLUSTER);
    tg_arena_free(&u->arena);
    u->cluster = (tg_cluster){0};
    return 0;
}

void tg_open_cluster(lua_State *L)
{
    static const luaL_Reg functions[] = {{"cluster", new_cluster}, {NULL, NULL}};
    if (luaL_newmetatable(L, CLUSTER)) {
        lua_pushcfunction(L, close_cluster);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, close_cluster);
        lua_setfield(L, -2, "__close");
        lua_newtable(L);
        luaL_setfuncs(L, tg_islands_methods, 0);
        luaL_setfuncs(L, tg_place_methods, 0);
        lua_pushcfunction(L, cut);
        lua_setfield(L, -2, "cut");
        lua_pushcfunction(L, close_cluster);
        lua_setfield(L, -2, "close");
        lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
