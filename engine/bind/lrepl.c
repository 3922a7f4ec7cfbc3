#include "bind/lrepl.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "bind/embedded.h"
#include "bind/state.h"

#define LINE "tangram.line"

enum { HISTORY_LINES = 1000, COMPLETER = 3 /* its place on the stack of line_read */ };

typedef struct {
    EditLine *editor; /* NULL: closed */
    History *history;
    char *history_path; /* NULL: not kept */
    const char *prompt; /* of the read at hand */
    lua_State *L;       /* of the read at hand; completion runs in it */
} line_ud;

static void on_interrupt(int number)
{
    (void)number;
    tg_request_stop();
}

/* Ctrl-C sets the stop flag, until signals are as in old again. */
static void watch_interrupts(struct sigaction *old)
{
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: it ends a read */
    sigemptyset(&action.sa_mask);
    tg_clear_stop();
    sigaction(SIGINT, &action, old);
}

static void unwatch_interrupts(const struct sigaction *old)
{
    sigaction(SIGINT, old, NULL);
    tg_clear_stop();
}

static line_ud *check_line(lua_State *L)
{
    line_ud *u = luaL_checkudata(L, 1, LINE);
    luaL_argcheck(L, u->editor, 1, "the line is closed");
    return u;
}

static char *prompt_of(EditLine *editor)
{
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    return (char *)(uintptr_t)((line_ud *)data)->prompt; /* libedit doesn't write to it */
}

/* libedit's own reader goes on reading after Ctrl-C. */
static int read_char(EditLine *editor, wchar_t *out)
{
    (void)editor;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno == EINTR && !*tg_stop_flag())
            continue;
        if (got <= 0)
            return (int)got;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            *out = L'?';
        if (used != (size_t)-2)
            return 1;
    }
}

/* (line, completer) -> what the completer gives for the text in front of the cursor */
static int call_completer(lua_State *L)
{
    const line_ud *u = lua_touserdata(L, 1);
    const LineInfo *info = el_line(u->editor);
    lua_pushlstring(L, info->buffer, (size_t)(info->cursor - info->buffer));
    lua_call(L, 1, 2);
    return 2;
}

static unsigned char complete(EditLine *editor, int key)
{
    (void)key;
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    lua_State *L = ((line_ud *)data)->L;
    int top = lua_gettop(L);
    unsigned char result = CC_REFRESH_BEEP;
    lua_pushcfunction(L, call_completer);
    lua_pushlightuserdata(L, data);
    lua_pushvalue(L, COMPLETER);
    if (lua_pcall(L, 2, 2, 0) == LUA_OK) { /* no error may cross libedit */
        const char *insertion = lua_tostring(L, -2), *listing = lua_tostring(L, -1);
        if (insertion && *insertion && el_insertstr(editor, insertion) == 0)
            result = CC_REFRESH;
        if (listing) {
            printf("\n%s\n", listing);
            result = CC_REDISPLAY;
        }
    }
    lua_settop(L, top);
    return result;
}

static int close_line(lua_State *L)
{
    line_ud *u = luaL_checkudata(L, 1, LINE);
    HistEvent event;
    if (u->history && u->history_path)
        history(u->history, &event, H_SAVE, u->history_path);
    if (u->editor)
        el_end(u->editor);
    if (u->history)
        history_end(u->history);
    free(u->history_path);
    *u = (line_ud){0};
    return 0;
}

/* terminal.open(completer, history_path?) -> line. completer(text in front of the cursor) -> text to insert?, list to
 * show? */
static int open_line(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    const char *path = luaL_optstring(L, 2, NULL);
    line_ud *u = lua_newuserdatauv(L, sizeof *u, 1);
    *u = (line_ud){0};
    luaL_setmetatable(L, LINE);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    u->history_path = path ? strdup(path) : NULL;
    u->history = history_init();
    u->editor = el_init("tangram", stdin, stdout, stderr);
    if (!u->history || !u->editor)
        return luaL_error(L, "the terminal can't be used");
    HistEvent event;
    history(u->history, &event, H_SETSIZE, HISTORY_LINES);
    history(u->history, &event, H_SETUNIQUE, 1);
    if (path)
        history(u->history, &event, H_LOAD, path);
    el_set(u->editor, EL_CLIENTDATA, u);
    el_set(u->editor, EL_PROMPT, prompt_of);
    el_set(u->editor, EL_HIST, history, u->history);
    el_set(u->editor, EL_EDITOR, "emacs");
    el_set(u->editor, EL_GETCFN, read_char);
    el_wset(u->editor, EL_ADDFN, L"complete", L"completes the word", complete); /* el_set would leak copies of both */
    el_set(u->editor, EL_BIND, "^I", "complete", NULL);
    el_set(u->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(u->editor, NULL); /* ~/.editrc */
    return 1;
}

/* line:read(prompt) -> the line without its end | nil at the end of the input | false after Ctrl-C */
static int line_read(lua_State *L)
{
    line_ud *u = check_line(L);
    u->prompt = luaL_checkstring(L, 2);
    u->L = L;
    lua_settop(L, COMPLETER - 1);
    lua_getiuservalue(L, 1, 1);
    luaL_checkstack(L, LUA_MINSTACK, NULL);
    struct sigaction old;
    watch_interrupts(&old);
    int count = 0;
    const char *text = el_gets(u->editor, &count);
    bool interrupted = *tg_stop_flag();
    unwatch_interrupts(&old);
    if (interrupted)
        lua_pushboolean(L, 0);
    else if (text && count > 0)
        lua_pushlstring(L, text, (size_t)count - (text[count - 1] == '\n'));
    else
        lua_pushnil(L);
    return 1;
}

/* line:add(text): to the history */
static int line_add(lua_State *L)
{
    HistEvent event;
    history(check_line(L)->history, &event, H_ENTER, luaL_checkstring(L, 2));
    return 0;
}

/* terminal.interactive() -> whether a person is at the standard input */
static int interactive(lua_State *L)
{
    lua_pushboolean(L, isatty(STDIN_FILENO));
    return 1;
}

/* terminal.interruptible(f, ...) -> as pcall; Ctrl-C raises "interrupted" in f, and stops the engine's search */
static int interruptible(lua_State *L)
{
    luaL_checkany(L, 1);
    struct sigaction old;
    watch_interrupts(&old);
    int status = tg_interruptible_call(L, lua_gettop(L) - 1);
    unwatch_interrupts(&old);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* terminal.source(name) -> text of a module of the standard library, or nil */
static int source(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    for (const tg_embedded *module = tg_embedded_modules; module->name; module++) {
        if (strcmp(module->name, name) == 0) {
            lua_pushlstring(L, (const char *)module->source, module->size);
            return 1;
        }
    }
    lua_pushnil(L);
    return 1;
}

int luaopen_tangram_terminal(lua_State *L)
{
    static const luaL_Reg methods[] = {{"read", line_read}, {"add", line_add}, {"close", close_line}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"open", open_line},
                                         {"interactive", interactive},
                                         {"interruptible", interruptible},
                                         {"source", source},
                                         {NULL, NULL}};
    luaL_newmetatable(L, LINE);
    lua_pushcfunction(L, close_line);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, close_line);
    lua_setfield(L, -2, "__close");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    luaL_newlib(L, functions);
    return 1;
}
