/* Methods of Cluster: its nodes, islands, why nodes are apart. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bind/lcluster.h"
#include "cluster/islands.h"

static void read_tolerance(lua_State *L, tg_tolerance *out)
{
    double *const to[] = {&out->compute, &out->memory, &out->intra};
    for (int i = 0; i < 3; i++) {
        lua_rawgeti(L, -1, i + 1);
        *to[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
}

/* Options table at index 2: tolerance = { compute, memory, intra }, merged, split_islands, islands = lists of names. */
static tg_islands_options read_options(lua_State *L, const tg_cluster *cluster, tg_arena *arena)
{
    tg_islands_options options = {.tolerance = {0.1, 0.1, 0.2}}; /* DESIGN.md, section 3 */
    if (lua_isnoneornil(L, 2))
        return options;
    luaL_checktype(L, 2, LUA_TTABLE);
    if (lua_getfield(L, 2, "tolerance") == LUA_TTABLE)
        read_tolerance(L, &options.tolerance);
    lua_getfield(L, 2, "merged");
    options.merged = lua_toboolean(L, -1);
    lua_Integer split = lua_getfield(L, 2, "split_islands") == LUA_TNIL ? 0 : luaL_checkinteger(L, -1);
    options.split_nodes = split > 0 ? (size_t)split : 0;
    lua_pop(L, 3);
    if (lua_getfield(L, 2, "islands") == LUA_TTABLE) {
        options.pin_count = lua_rawlen(L, -1);
        tg_pin *pins = tg_need(L, arena, options.pin_count, sizeof *pins);
        for (size_t p = 0; p < options.pin_count; p++) {
            lua_rawgeti(L, -1, (lua_Integer)p + 1);
            pins[p].nodes = tg_pop_nodes(L, cluster, arena, &pins[p].count);
        }
        options.pins = pins;
    }
    lua_pop(L, 1);
    return options;
}

static void set_nodes(lua_State *L, const tg_cluster *cluster, const tg_island *island)
{
    lua_createtable(L, (int)island->node_count, 0);
    lua_createtable(L, (int)island->node_count, 0);
    for (size_t i = 0; i < island->node_count; i++) {
        lua_pushstring(L, cluster->nodes[island->nodes[i]].name);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushinteger(L, (lua_Integer)island->nodes[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -3, "node_indices");
    lua_setfield(L, -2, "nodes");
}

static void push_island(lua_State *L, const tg_cluster *cluster, const tg_island *island)
{
    char signature[17];
    snprintf(signature, sizeof signature, "%016" PRIx64, island->signature);
    lua_createtable(L, 0, 16);
    tg_set_text(L, "name", island->name);
    tg_set_text(L, "gpu", island->gpu);
    set_nodes(L, cluster, island);
    tg_set_count(L, "node_count", island->node_count);
    tg_set_count(L, "gpus", island->gpus);
    tg_set_count(L, "gpus_per_node", island->gpus_per_node);
    tg_set_number(L, "compute_flops", island->compute_flops);
    tg_set_number(L, "memory_bytes", island->memory_bytes);
    tg_push_rate(L, &island->intra);
    lua_setfield(L, -2, "intra");
    tg_set_number(L, "intra_latency_s", island->intra_latency_s);
    if (island->inter.rate.count > 0) {
        lua_createtable(L, 0, 2);
        tg_push_rate(L, &island->inter.rate);
        lua_setfield(L, -2, "rates");
        tg_set_number(L, "latency_s", island->inter.latency_s);
        lua_setfield(L, -2, "inter");
    }
    tg_set_boolean(L, "merged", island->merged);
    tg_set_boolean(L, "pinned", island->pinned);
    tg_set_text(L, "signature", signature);
}

static void set_contrast(lua_State *L, const tg_contrast *contrast)
{
    static const char *const names[] = {"gpus", "compute_flops", "memory_bytes", "intra_bytes_per_s", "pinned"};
    tg_set_text(L, "trait", names[contrast->trait]);
    if (contrast->trait == TG_INTRA)
        tg_set_count(L, "size", contrast->size);
    if (contrast->trait == TG_PINNED)
        return;
    lua_createtable(L, 2, 0);
    for (int i = 0; i < 2; i++) {
        lua_pushnumber(L, contrast->figures[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "figures");
}

static void set_node(lua_State *L, const tg_cluster *cluster, const char *name, size_t node)
{
    if (node < cluster->node_count)
        tg_set_text(L, name, cluster->nodes[node].name);
}

/* { nodes = { a, b }, constraint = 1|2|3|nil, trait, figures, size } and for 3 { from, to, faster, link_bytes_per_s,
 * partner }, for nil { third }; see tg_apart. */
static void push_apart(lua_State *L, const tg_cluster *cluster, const tg_apart *apart)
{
    lua_createtable(L, 0, 8);
    lua_createtable(L, 2, 0);
    lua_pushstring(L, cluster->nodes[apart->first].name);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, cluster->nodes[apart->second].name);
    lua_rawseti(L, -2, 2);
    lua_setfield(L, -2, "nodes");
    if (apart->constraint > 0)
        tg_set_integer(L, "constraint", (lua_Integer)apart->constraint);
    else
        set_node(L, cluster, "third", apart->third);
    if (apart->constraint == 3) {
        set_node(L, cluster, "from", apart->from);
        set_node(L, cluster, "to", apart->to);
        set_node(L, cluster, "faster", apart->faster);
        set_node(L, cluster, "partner", apart->partner);
        lua_createtable(L, 2, 0);
        for (int i = 0; i < 2; i++) {
            lua_pushnumber(L, apart->link_bytes_per_s[i]);
            lua_rawseti(L, -2, i + 1);
        }
        lua_setfield(L, -2, "link_bytes_per_s");
    }
    if (apart->constraint > 0 || apart->contrast.trait == TG_PINNED)
        set_contrast(L, &apart->contrast);
}

static tg_status push_all_apart(lua_State *L, const tg_cluster *cluster, const tg_islands_options *options,
                                const tg_islands *islands, tg_arena *arena, tg_error *err)
{
    size_t n = cluster->node_count, count = 0;
    tg_apart *pairs = tg_need(L, arena, n * n, sizeof *pairs);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++)
            if (islands->island_of[a] != islands->island_of[b])
                pairs[count++] = (tg_apart){.first = a, .second = b};
    tg_status status = tg_islands_why(cluster, options, islands, pairs, count, err);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count && status == TG_OK; i++) {
        push_apart(L, cluster, &pairs[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return status;
}

/* cluster:islands([options]) -> { islands, proved_fewest, pin_warnings, unsplit [, apart] } | nil, why. options:
 * tolerance = { compute, memory, intra }, merged, split_islands (nodes a part), islands (pins), apart = true (why each
 * pair is). */
static int islands(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    lua_settop(L, 2);
    tg_arena *arena = tg_push_arena(L);
    tg_islands_options options = read_options(L, cluster, arena);
    tg_islands found;
    tg_error err;
    tg_status status = tg_islands_build(arena, cluster, &options, &found, &err);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    lua_createtable(L, 0, 5);
    tg_set_boolean(L, "proved_fewest", found.proved_fewest);
    lua_createtable(L, (int)found.count, 0);
    for (size_t i = 0; i < found.count; i++) {
        push_island(L, cluster, &found.islands[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "islands");
    lua_createtable(L, (int)found.pin_warning_count, 0);
    for (size_t i = 0; i < found.pin_warning_count; i++) {
        push_apart(L, cluster, &found.pin_warnings[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "pin_warnings");
    lua_createtable(L, (int)found.unsplit_count, 0);
    for (size_t i = 0; i < found.unsplit_count; i++) {
        lua_pushstring(L, found.islands[found.unsplit[i]].name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "unsplit");
    bool apart = lua_istable(L, 2) && lua_getfield(L, 2, "apart") != LUA_TNIL && lua_toboolean(L, -1);
    lua_settop(L, 4);
    if (apart) {
        status = push_all_apart(L, cluster, &options, &found, arena, &err);
        if (status != TG_OK)
            return tg_cluster_failure(L, status, &err);
        lua_setfield(L, 4, "apart");
    }
    tg_arena_free(arena);
    return 1;
}

/* cluster:why(a, b [, options]) -> as an item of apart | nil if they share an island; nil, why on wrong options */
static int why(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    tg_apart pair = {.first = tg_node_at(L, cluster, 2), .second = tg_node_at(L, cluster, 3)};
    lua_settop(L, 4);
    lua_replace(L, 2);
    lua_settop(L, 2);
    tg_arena *arena = tg_push_arena(L);
    tg_islands_options options = read_options(L, cluster, arena);
    tg_islands found;
    tg_error err;
    tg_status status = tg_islands_build(arena, cluster, &options, &found, &err);
    bool together = status == TG_OK && found.island_of[pair.first] == found.island_of[pair.second];
    if (status == TG_OK && !together)
        status = tg_islands_why(cluster, &options, &found, &pair, 1, &err);
    tg_arena_free(arena);
    if (status != TG_OK)
        return tg_cluster_failure(L, status, &err);
    if (together)
        lua_pushnil(L);
    else
        push_apart(L, cluster, &pair);
    return 1;
}

/* cluster:link(a, b) -> rate, latency_s; a rate is a list of { flows, bytes_per_s }. nil for a node and itself. */
static int link_of(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    const tg_wire *wire = tg_cluster_link(cluster, tg_node_at(L, cluster, 2), tg_node_at(L, cluster, 3));
    if (!wire) {
        lua_pushnil(L);
        return 1;
    }
    tg_push_rate(L, &wire->rate);
    lua_pushnumber(L, wire->latency_s);
    return 2;
}

/* cluster:nodes() -> list of { name, machine, first (index of its first GPU in the machine, from 1), gpus, gpu, … } */
static int nodes(lua_State *L)
{
    const tg_cluster *cluster = tg_check_cluster(L, 1);
    lua_createtable(L, (int)cluster->node_count, 0);
    for (size_t n = 0; n < cluster->node_count; n++) {
        const tg_node *node = &cluster->nodes[n];
        lua_createtable(L, 0, 9);
        tg_set_text(L, "name", node->name);
        tg_set_text(L, "machine", node->physical_name);
        tg_set_count(L, "first", node->first_gpu + 1);
        tg_set_count(L, "gpus", node->gpus);
        tg_set_text(L, "gpu", node->gpu);
        tg_set_number(L, "compute_flops", node->compute_flops);
        tg_set_number(L, "memory_bytes", node->memory_bytes);
        tg_push_rate(L, &node->intra);
        lua_setfield(L, -2, "intra");
        tg_set_number(L, "intra_latency_s", node->intra_latency_s);
        lua_rawseti(L, -2, (lua_Integer)n + 1);
    }
    return 1;
}

const luaL_Reg tg_islands_methods[] = {
    {"islands", islands}, {"why", why}, {"link", link_of}, {"nodes", nodes}, {NULL, NULL}};
