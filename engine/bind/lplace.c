/* Methods of Cluster: where stages lie, and what transfers between them cost. */
#include "bind/lcluster.h"
#include "cluster/place.h"

static size_t count_field(lua_State *L, int index, const char *name)
{
    int whole;
    lua_getfield(L, index, name);
    lua_Integer x = lua_tointegerx(L, -1, &whole);
    if (!whole || x < 1)
        luaL_error(L, "%s: expected a whole number of at least 1", name);
    lua_pop(L, 1);
    return (size_t)x;
}

tg_island tg_read_island(lua_State *L, const tg_cluster *cluster, tg_arena *arena, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    tg_island island = {.gpus_per_node = count_field(L, index, "gpus_per_node")};
    lua_getfield(L, index, "name");
    island.name = luaL_checkstring(L, -1); /* the island keeps it alive */
    lua_pop(L, 1);
    lua_getfield(L, index, "node_indices");
    island.nodes = tg_pop_nodes(L, cluster, arena, &island.node_count);
    luaL_argcheck(L, island.node_count > 0, index, "an island without nodes");
    for (size_t i = 0; i < island.node_count; i++)
        luaL_argcheck(L, cluster->nodes[island.nodes[i]].gpus >= island.gpus_per_node, index,
                      "an island of another cluster");
    island.gpus = island.node_count * island.gpus_per_node;
    return island;
}

static void push_transfer(lua_State *L, tg_transfer transfer)
{
    lua_createtable(L, 0, 2);
    tg_set_number(L, "latency_s", transfer.latency_s);
    tg_set_number(L, "bytes_per_s", transfer.bytes_per_s);
}

static void push_place(lua_State *L, const tg_cluster *cluster, const tg_stage_place *place)
{
    lua_createtable(L, (int)place->range_count, 0);
    for (size_t r = 0; r < place->range_count; r++) {
        const tg_gpu_range *range = &place->ranges[r];
        const tg_node *node = &cluster->nodes[range->node];
        lua_createtable(L, 0, 4);
        tg_set_text(L, "machine", node->physical_name);
        tg_set_count(L, "node_index", range->node + 1);
        tg_set_count(L, "first", node->first_gpu + range->first + 1);
        tg_set_count(L, "count", range->count);
        lua_rawseti(L, -2, (lua_Integer)r + 1);
    }
}

/* cluster:place(island, gpus [, idle]) -> places, transfers | nil, why. gpus: of each stage, front to back; places: for
 * each stage a list of { machine, node_index, first (GPU of the machine, from 1), count }; transfers: for each stage
 * but the last { latency_s, bytes_per_s } to the next. */
static int place(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_Integer idle = luaL_optinteger(L, 4, 0);
    luaL_argcheck(L, idle >= 0, 4, "idle GPUs are at least 0");
    tg_arena *arena = tg_push_arena(L);
    tg_island island = tg_read_island(L, cluster, arena, 2);
    size_t count = lua_rawlen(L, 3);
    size_t *gpus = tg_need(L, arena, count, sizeof *gpus);
    for (size_t s = 0; s < count; s++) {
        lua_rawgeti(L, 3, (lua_Integer)s + 1);
        lua_Integer x = luaL_checkinteger(L, -1);
        gpus[s] = x > 0 ? (size_t)x : 0;
        lua_pop(L, 1);
    }
    tg_stage_place *places = tg_need(L, arena, count, sizeof *places);
    tg_error err;
    tg_status status = tg_place(arena, &island, gpus, count, (size_t)idle, places, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_createtable(L, (int)count, 0);
    lua_createtable(L, (int)count, 0);
    for (size_t s = 0; s < count; s++) {
        push_place(L, cluster, &places[s]);
        lua_rawseti(L, -3, (lua_Integer)s + 1);
        if (s + 1 == count)
            break;
        push_transfer(L, tg_transfer_inside(cluster, &places[s], &places[s + 1]));
        lua_rawseti(L, -2, (lua_Integer)s + 1);
    }
    tg_arena_free(arena);
    return 2;
}

/* cluster:classes(island) -> list of { nodes, gpus_per_node } that an end stage of it can have */
static int classes(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    tg_arena *arena = tg_push_arena(L);
    tg_island island = tg_read_island(L, cluster, arena, 2);
    const tg_end_class *found;
    size_t count = tg_end_classes(arena, &island, &found);
    if (!found)
        return luaL_error(L, "out of memory");
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_createtable(L, 0, 2);
        tg_set_count(L, "nodes", found[i].nodes);
        tg_set_count(L, "gpus_per_node", found[i].gpus_per_node);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    tg_arena_free(arena);
    return 1;
}

static tg_end_class class_at(lua_State *L, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    return (tg_end_class){count_field(L, index, "nodes"), count_field(L, index, "gpus_per_node")};
}

/* cluster:transfer(island_a, class_a, island_b, class_b) -> { latency_s, bytes_per_s } */
static int transfer(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    tg_end_class class_a = class_at(L, 3), class_b = class_at(L, 5);
    tg_arena *arena = tg_push_arena(L);
    tg_island a = tg_read_island(L, cluster, arena, 2), b = tg_read_island(L, cluster, arena, 4);
    for (size_t i = 0; i < a.node_count; i++)
        for (size_t j = 0; j < b.node_count; j++)
            luaL_argcheck(L, a.nodes[i] != b.nodes[j], 4, "the two islands share a node");
    push_transfer(L, tg_transfer_between(cluster, &a, class_a, &b, class_b));
    tg_arena_free(arena);
    return 1;
}

const luaL_Reg tg_place_methods[] = {{"place", place}, {"classes", classes}, {"transfer", transfer}, {NULL, NULL}};
