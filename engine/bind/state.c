#include "bind/state.h"
#include "bind/convert.h"

#include <float.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* glibc keeps the name to itself */
#endif

/* A signal handler can reach nothing else: the one mutable global of the program. */
static volatile sig_atomic_t stop_requested;

const volatile sig_atomic_t *tg_stop_flag(void)
{
    return &stop_requested;
}

void tg_request_stop(void)
{
    __atomic_store_n(&stop_requested, 1, __ATOMIC_RELAXED); /* workers read it in their threads */
}

void tg_clear_stop(void)
{
    __atomic_store_n(&stop_requested, 0, __ATOMIC_RELAXED);
}

static int traceback(lua_State *L)
{
    const char *message = lua_tostring(L, 1);
    if (!message) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1))
            return 1;
        message = lua_pushfstring(L, "(error value of type %s)", luaL_typename(L, 1));
    }
    luaL_traceback(L, L, message, 1);
    return 1;
}

int tg_protected_call(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs;
    lua_pushcfunction(L, traceback);
    lua_insert(L, base);
    int status = lua_pcall(L, nargs, nresults, base);
    lua_remove(L, base);
    return status;
}

void tg_push_message(lua_State *L, int index)
{
    enum { LONGEST = 500 };
    if (lua_type(L, index) != LUA_TSTRING) {
        /* no metamethods: they would be the plugin's */
        lua_pushfstring(L, "raised a %s, expected a message", luaL_typename(L, index));
        return;
    }
    size_t size;
    const char *text = lua_tolstring(L, index, &size);
    size_t line = strcspn(text, "\n");
    lua_pushlstring(L, text, line < LONGEST ? line : LONGEST);
}

int tg_push_failure(lua_State *L, const tg_error *err)
{
    lua_pushnil(L);
    lua_pushstring(L, err->message);
    return 2;
}

void tg_make_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *metamethods)
{
    if (luaL_newmetatable(L, name)) {
        luaL_setfuncs(L, metamethods, 0);
        lua_newtable(L);
        luaL_setfuncs(L, methods, 0);
        lua_setfield(L, -2, "__index");
        tg_set_text(L, "__metatable", name);
    }
    lua_pop(L, 1);
}

static int free_arena(lua_State *L)
{
    tg_arena_free(luaL_checkudata(L, 1, "tangram.arena"));
    return 0;
}

tg_arena *tg_push_arena(lua_State *L)
{
    tg_arena *arena = lua_newuserdatauv(L, sizeof *arena, 0);
    arena->blocks = NULL;
    if (luaL_newmetatable(L, "tangram.arena")) {
        lua_pushcfunction(L, free_arena);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return arena;
}

/* Between two looks at the limits: instructions, where a hook counts them, or the time of a tick. */
enum { CHECK_EVERY = 10000, TICK_NS = 50000000 };

static const char LIMITS = 0, INTERRUPTIBLE = 0, TICKER = 0; /* their addresses are the registry's keys */

/* The limits in force in a state, on the C stack of the call that set them. */
typedef struct {
    double deadline_s;
    size_t left_bytes; /* by which the state may still grow */
    lua_Alloc alloc;   /* what stood before */
    void *alloc_self;
    tg_cut cut;
} limits;

/* A timer whose signal comes to the thread that runs the state, and nowhere else. */
typedef struct {
    timer_t timer;
    lua_State *L; /* its main thread */
    bool made;
    volatile sig_atomic_t ticking, needed; /* no longer needed: the next tick is the last */
} ticker;

static void *registered(lua_State *L, const char *key)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    void *found = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return found;
}

static ticker *ticker_of(lua_State *L)
{
    ticker *t = registered(L, &TICKER);
    return t && t->made ? t : NULL;
}

static lua_State *main_thread(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *thread = lua_tothread(L, -1);
    lua_pop(L, 1);
    return thread;
}

static void set_timer(ticker *t, long each_ns)
{
    struct timespec each = {.tv_nsec = each_ns};
    t->ticking = each_ns > 0;
    timer_settime(t->timer, 0, &(struct itimerspec){each, each}, NULL);
}

static void check_limits(lua_State *L, lua_Debug *ar);

static void set_hook(lua_State *L, bool yes)
{
    lua_sethook(L, yes ? check_limits : NULL, LUA_MASKCOUNT, CHECK_EVERY);
}

static void check_now(lua_State *L)
{
    lua_sethook(L, check_limits, LUA_MASKCALL | LUA_MASKCOUNT, 1);
}

/* Until a limit is reached a ticking state runs without a hook, which would slow its every instruction. Its coroutines,
 * which no tick reaches, and states that don't tick have one. */
static void watch(lua_State *L)
{
    const limits *now = registered(L, &LIMITS);
    bool needed = now && (now->deadline_s < DBL_MAX || registered(L, &INTERRUPTIBLE));
    lua_State *thread = main_thread(L);
    ticker *t = ticker_of(L);
    if (t) {
        t->needed = needed; /* before ticking is read: a tick may come between */
        if (needed && !t->ticking)
            set_timer(t, TICK_NS);
    }
    set_hook(thread, needed && !t);
    if (thread != L)
        set_hook(L, needed || t);
}

static void check_limits(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    limits *now = registered(L, &LIMITS);
    const char *why = NULL;
    if (now && __atomic_load_n(&stop_requested, __ATOMIC_RELAXED) && registered(L, &INTERRUPTIBLE))
        why = "interrupted";
    else if (now && tg_clock_s() > now->deadline_s)
        why = "time limit reached";
    if (!why) {
        watch(L);
        return;
    }
    now->cut = *why == 'i' ? TG_CUT_STOP : TG_CUT_TIME;
    /* From here on every instruction fails: here, and where a coroutine hands its failure to. */
    check_now(L);
    check_now(main_thread(L));
    lua_pushstring(L, why);
    lua_error(L);
}

static void on_tick(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    ticker *t = info->si_code == SI_TIMER ? info->si_value.sival_ptr : NULL;
    if (t && t->needed)
        check_now(t->L); /* which Lua allows in a handler, of the thread that runs the state */
    else if (t)
        set_timer(t, 0);
}

static int end_ticker(lua_State *L)
{
    ticker *t = lua_touserdata(L, 1);
    if (t->made)
        timer_delete(t->timer); /* its signals come to this very thread: none is under way */
    t->made = false;
    return 0;
}

/* coroutine.create and coroutine.wrap: as upvalue 1 makes them, but watched. */
static int make_coroutine(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    check_limits(L, NULL); /* past them, nobody is to try one coroutine after the other */
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (lua_isthread(L, -1))
        lua_pushvalue(L, -1);
    else
        lua_getupvalue(L, -1, 1); /* wrap's function holds it */
    set_hook(lua_tothread(L, -1), true);
    lua_pop(L, 1);
    return 1;
}

void tg_tick(lua_State *L)
{
    ticker *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (ticker){.L = main_thread(L)};
    if (luaL_newmetatable(L, "tangram.ticker")) {
        lua_pushcfunction(L, end_ticker);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &TICKER);
    lua_getglobal(L, "coroutine");
    for (const char *const *name = (const char *const[]){"create", "wrap", NULL}; *name; name++) {
        lua_getfield(L, -1, *name);
        lua_pushcclosure(L, make_coroutine, 1);
        lua_setfield(L, -2, *name);
    }
    lua_pop(L, 1);
    /* SIGURG is ignored where nobody handles it, as in the programs that plugins run, and libraries leave it alone. */
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG, .sigev_value = {.sival_ptr = t}};
    event.sigev_notify_thread_id = gettid();
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGURG);
    /* Without a timer the state has a hook, as any other. */
    t->made = TANGRAM_TICKS && sigaction(SIGURG, &action, NULL) == 0 &&
              pthread_sigmask(SIG_UNBLOCK, &action.sa_mask, NULL) == 0 &&
              timer_create(CLOCK_MONOTONIC, &event, &t->timer) == 0;
}

static void set_limits(lua_State *L, limits *now)
{
    lua_pushlightuserdata(L, now);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &LIMITS);
    watch(L);
}

static void *counted(void *self, void *block, size_t old_size, size_t size)
{
    limits *now = self;
    size_t before = block ? old_size : 0;
    if (size > before && size - before > now->left_bytes) {
        now->cut = TG_CUT_MEMORY; /* unless a collection helps */
        return NULL;
    }
    void *result = now->alloc(now->alloc_self, block, old_size, size);
    if (result || size == 0)
        now->left_bytes += before - size;
    return result;
}

int tg_limited_call(lua_State *L, int nargs, int nresults, double seconds, size_t bytes, tg_cut *cut)
{
    limits now = {.deadline_s = tg_clock_s() + seconds, .left_bytes = bytes}, *outer = registered(L, &LIMITS);
    if (outer && outer->deadline_s < now.deadline_s)
        now.deadline_s = outer->deadline_s;
    set_limits(L, &now);
    now.alloc = lua_getallocf(L, &now.alloc_self);
    if (bytes < SIZE_MAX)
        lua_setallocf(L, counted, &now);
    int status = lua_pcall(L, nargs, nresults, 0);
    lua_setallocf(L, now.alloc, now.alloc_self);
    set_limits(L, outer);
    if (now.cut && outer)
        check_now(L); /* it may be over for the call around, too */
    *cut = status == LUA_OK || (now.cut == TG_CUT_MEMORY && status != LUA_ERRMEM) ? TG_NOT_CUT : now.cut;
    if (*cut == TG_CUT_MEMORY)
        lua_gc(L, LUA_GCCOLLECT);
    return status;
}

static int limited(lua_State *L)
{
    double seconds = luaL_checknumber(L, 1);
    tg_cut cut;
    int status = tg_limited_call(L, lua_gettop(L) - 2, LUA_MULTRET, seconds, SIZE_MAX, &cut);
    lua_pushboolean(L, status == LUA_OK);
    lua_replace(L, 1);
    return lua_gettop(L);
}

/* core.guarded(seconds, bytes, f, ...) -> true, results of f | false, message, cut. How plugins are called: what they
 * raise comes as a string, and `cut` is "time", "memory" or "stop" where a limit ended them. */
static int guarded(lua_State *L)
{
    static const char *const cuts[] = {NULL, "time", "memory", "stop"};
    double seconds = luaL_checknumber(L, 1), bytes = luaL_checknumber(L, 2);
    tg_cut cut;
    int status =
        tg_limited_call(L, lua_gettop(L) - 3, LUA_MULTRET, seconds, bytes < 0x1p62 ? (size_t)bytes : SIZE_MAX, &cut);
    lua_pushboolean(L, status == LUA_OK);
    lua_replace(L, 2);
    if (status == LUA_OK)
        return lua_gettop(L) - 1;
    tg_push_message(L, 3);
    lua_replace(L, 3);
    lua_pushstring(L, cuts[cut]);
    return 3;
}

/* core.unlimited(f, ...) -> results of f, whose time no limit around it counts */
static int unlimited(lua_State *L)
{
    limits *outer = registered(L, &LIMITS);
    double started_s = tg_clock_s();
    limits none = {.deadline_s = DBL_MAX};
    luaL_checkany(L, 1);
    set_limits(L, &none);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    if (outer)
        outer->deadline_s += tg_clock_s() - started_s;
    set_limits(L, outer);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* core.traced(f, ...) -> true, results | false, message with traceback */
static int traced(lua_State *L)
{
    luaL_checkany(L, 1);
    int status = tg_protected_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

void tg_set_interruptible(lua_State *L, bool yes)
{
    lua_pushlightuserdata(L, yes ? L : NULL);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &INTERRUPTIBLE);
}

int tg_interruptible_call(lua_State *L, int nargs)
{
    limits none = {.deadline_s = DBL_MAX};
    tg_set_interruptible(L, true);
    set_limits(L, &none);
    int status = lua_pcall(L, nargs, LUA_MULTRET, 0);
    tg_set_interruptible(L, false);
    set_limits(L, NULL);
    return status;
}

static int clock_s(lua_State *L)
{
    lua_pushnumber(L, tg_clock_s());
    return 1;
}

void tg_open_state(lua_State *L)
{
    static const luaL_Reg functions[] = {{"limited", limited}, {"guarded", guarded}, {"unlimited", unlimited},
                                         {"traced", traced},   {"clock_s", clock_s}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
