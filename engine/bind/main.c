/* The program: Lua with the standard library inside. `tangram COMMAND …`, or `tangram SCRIPT …` as lua5.4 would. */
#include <limits.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bind/core.h"
#include "bind/embedded.h"
#include "bind/lrepl.h"

/* Pushes the folders of plugins: where the program lies, for a build folder, and where they are installed. */
static void push_places(lua_State *L)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash = size > 0 ? memrchr(path, '/', (size_t)size) : NULL;
    if (!slash)
        luaL_error(L, "/proc is not there: the program can't tell where it lies");
    lua_pushlstring(L, path, (size_t)(slash - path));
    lua_pushfstring(L, "%s/%s", lua_tostring(L, -1), TANGRAM_DATA_FROM_PROGRAM);
}

/* Runs under a protected call: (argc, argv) -> exit status */
static int run(lua_State *L)
{
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_openlibs(L);
    tg_tick(L);
    lua_gc(L, LUA_GCINC, 400, 0, 0); /* planning makes many small tables: collect less often */
    tg_preload(L, tg_embedded_modules);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, luaopen_tangram_terminal);
    lua_setfield(L, -2, "tangram.terminal");
    lua_pop(L, 1);
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tangram.cli");
    lua_call(L, 1, 1);
    push_places(L);
    lua_call(L, 2, 1);
    return 1;
}

static void on_interrupt(int number)
{
    static const char told[] = "\ntangram: stopping with what there is; a second Ctrl-C ends it at once\n";
    tg_request_stop();
    signal(number, SIG_DFL);
    if (isatty(STDERR_FILENO) && write(STDERR_FILENO, told, sizeof told - 1) < 0)
        _exit(EXIT_FAILURE); /* nobody is there any more */
}

/* At exit: what was printed may be on its way until now, and a full disk shows only then. */
static void check_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fputs("tangram: standard output: can't write all of it (is the disk full?)\n", stderr);
    _exit(2);
}

int main(int argc, char **argv)
{
    atexit(check_output);
    lua_State *L = luaL_newstate();
    if (!L) {
        fputs("tangram: out of memory\n", stderr);
        return EXIT_FAILURE;
    }
#ifdef __GLIBC__
    /* Problems are composed again and again, and fresh pages can cost more than the work done in them: freed memory is
     * kept. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most there is */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
    signal(SIGINT, on_interrupt);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = tg_protected_call(L, 2, 1);
    int exit_status = EXIT_FAILURE;
    if (status == LUA_OK)
        exit_status = (int)luaL_optinteger(L, -1, 0);
    else
        fprintf(stderr, "tangram: internal error: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return exit_status;
}
