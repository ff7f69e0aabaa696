#!/bin/sh
# Links as cc does. Programs get a main function of ours around their own, which tells when that has returned.
for word in "$@"; do
    case $word in
        -shared | -r | */build_script_*) exec cc "$@" ;;
    esac
done
said=$(cc -Wl,--wrap=main -x c "$(dirname "$0")/m.c" -x none "$@" 2>&1) && exit 0
case $said in
    *__wrap_main* | *__real_main*)
        echo "$said" >&2
        exit 1
        ;;
esac
exec cc "$@"
