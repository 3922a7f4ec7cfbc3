#!/bin/sh
# closes.sh PROGRAM in|out: answers five questions rightly, then closes its standard input or output and goes on living.
for _ in 1 2 3 4 5; do read -r line && printf '%s\n' "$line"; done | "$1" run tests/fault/misbehave.lua none
case $2 in
in) exec <&- ;;
out) exec >&- ;;
esac
sleep 98.76
