#include "bind/state.h"
#include "bind/convert.h"

#include <ctype.h>
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
    const char *text = lua_tostring(L, index);
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    for (size_t i = 0; i < LONGEST && text[i] && text[i] != '\n'; i++)
        luaL_addchar(&line, iscntrl((unsigned char)text[i]) ? ' ' : text[i]); /* it is shown on terminals */
    luaL_pushresult(&line);
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
    bool interruptible; /* ends when a stop is requested */
    size_t left_bytes;  /* by which the state may still grow */
    lua_Alloc alloc;    /* what stood before */
    void *alloc_self;
    tg_cut cut;
} limits;

/* A timer whose signal comes to the thread that runs the state, and nowhere else. */
typedef struct {
    timer_t timer;
    lua_State *L;               /* its main thread */
    const limits *volatile now; /* NULL: the next tick is the last */
    volatile sig_atomic_t ticking;
} ticker;

static void *registered(lua_State *L, const char *key)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    void *found = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return found;
}

static lua_State *main_thread(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *thread = lua_tothread(L, -1);
    lua_pop(L, 1);
    return thread;
}

static void check_limits(lua_State *L, lua_Debug *ar);

static void set_hook(lua_State *L, bool yes)
{
    lua_Hook hook = yes ? check_limits : NULL;
    if (lua_gethook(L) != hook || lua_gethookcount(L) != CHECK_EVERY) /* else it counts on */
        lua_sethook(L, hook, LUA_MASKCOUNT, CHECK_EVERY);
}

static void check_each(lua_State *L)
{
    lua_sethook(L, check_limits, LUA_MASKCALL | LUA_MASKCOUNT, 1);
}

static bool can_end(const limits *now)
{
    return now && (now->deadline_s < DBL_MAX || now->interruptible);
}

static const char *what_ends(const limits *now)
{
    if (now->interruptible && __atomic_load_n(&stop_requested, __ATOMIC_RELAXED))
        return "interrupted";
    return tg_clock_s() > now->deadline_s ? "time limit reached" : NULL;
}

/* Until a limit is reached a ticking state runs without a hook, which would slow its every instruction. Its coroutines,
 * which no tick reaches, and states that don't tick have one. */
static void relax(lua_State *L)
{
    bool needed = can_end(registered(L, &LIMITS)), ticks = registered(L, &TICKER);
    lua_State *thread = main_thread(L);
    set_hook(thread, needed && !ticks);
    if (thread != L)
        set_hook(L, needed || ticks);
}

static void check_limits(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    limits *now = registered(L, &LIMITS);
    const char *why = now ? what_ends(now) : NULL;
    if (!why) {
        relax(L);
        return;
    }
    now->cut = *why == 'i' ? TG_CUT_STOP : TG_CUT_TIME;
    /* From here on every instruction fails: here, and where a coroutine hands its failure to. */
    check_each(L);
    check_each(main_thread(L));
    lua_pushstring(L, why);
    lua_error(L);
}

/* One tick: the next is set when that is over, which takes as long as calls are deep. */
static void set_timer(ticker *t)
{
    t->ticking = 1;
    timer_settime(t->timer, 0, &(struct itimerspec){.it_value = {.tv_nsec = TICK_NS}}, NULL);
}

static void on_tick(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_code != SI_TIMER)
        return;
    ticker *t = info->si_value.sival_ptr;
    t->ticking = 0;
    if (t->now && what_ends(t->now))
        check_each(t->L); /* Lua allows it in a handler, of the thread that runs the state */
    if (t->now)
        set_timer(t);
}

static int end_ticker(lua_State *L)
{
    const ticker *t = lua_touserdata(L, 1);
    timer_delete(t->timer); /* its signals come to this very thread: none is under way */
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &TICKER);
    return 0;
}

/* coroutine.create and coroutine.wrap: as upvalue 1 makes them, but watched. */
static int make_coroutine(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    check_limits(L, NULL); /* past them, nobody is to try one coroutine after the other */
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    if (!lua_isthread(L, 1))
        lua_getupvalue(L, 1, 1); /* wrap's function holds it */
    set_hook(lua_tothread(L, -1), true);
    lua_settop(L, 1);
    return 1;
}

void tg_tick(lua_State *L)
{
    int top = lua_gettop(L);
    lua_getglobal(L, "coroutine");
    for (const char *const *name = (const char *const[]){"create", "wrap", NULL}; *name; name++) {
        lua_getfield(L, -1, *name);
        lua_pushcclosure(L, make_coroutine, 1);
        lua_setfield(L, -2, *name);
    }
    ticker *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (ticker){.L = main_thread(L)};
    if (luaL_newmetatable(L, "tangram.ticker")) {
        lua_pushcfunction(L, end_ticker);
        lua_setfield(L, -2, "__gc");
    }
    /* SIGURG is ignored where nobody handles it, and libraries leave it alone. */
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG, .sigev_value = {.sival_ptr = t}};
    event.sigev_notify_thread_id = gettid();
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGURG);
    if (TANGRAM_TICKS && sigaction(SIGURG, &action, NULL) == 0 &&
        pthread_sigmask(SIG_UNBLOCK, &action.sa_mask, NULL) == 0 &&
        timer_create(CLOCK_MONOTONIC, &event, &t->timer) == 0) {
        lua_setmetatable(L, -2);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &TICKER);
    } /* else the state has a hook, as others have */
    lua_settop(L, top);
}

static void set_limits(lua_State *L, limits *now)
{
    ticker *t = registered(L, &TICKER);
    if (now)
        now->interruptible = registered(L, &INTERRUPTIBLE);
    lua_pushlightuserdata(L, now);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &LIMITS);
    if (t) {
        t->now = can_end(now) ? now : NULL; /* before ticking is read: a tick may come between */
        if (t->now && !t->ticking)
            set_timer(t);
    }
    relax(L);
}

static void *counted(void *self, void *block, size_t old_size, size_t size)
{
    limits *now = self;
    size_t before = block ? old_size : 0;
    if (size > before && size - before > now->left_bytes) {
        if (now->cut == TG_NOT_CUT)
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
        check_each(L); /* it may be over for the call around, too */
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
    limits *outer = registered(L, &LIMITS), none = {.deadline_s = DBL_MAX};
    double started_s = tg_clock_s();
    luaL_checkany(L, 1);
    set_limits(L, &none);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    if (outer)
        outer->deadline_s += tg_clock_s() - started_s;
    set_limits(L, outer);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
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
    static const luaL_Reg functions[] = {
        {"limited", limited}, {"guarded", guarded}, {"unlimited", unlimited}, {"clock_s", clock_s}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
