/* Tells the process that started a test program of Rust that its main function has returned.
   The linker puts this around main (--wrap=main). Who ends the program by exit() does not come by here. */

static const char name[] = "RUST_TEST_RETURN=";
static char word[40];
static int size, end = -1, process;

extern int __real_main(int count, char **words);
extern int fcntl(int descriptor, int what, ...);
extern int getpid(void);
extern long write(int descriptor, const void *data, unsigned long size);

/* Takes the variable out of the environment, before anything else of the program runs: DESCRIPTOR:WORD. */
static void take(int count, char **words, char **environment) {
    char **from, **to;
    (void)count;
    (void)words;
    for (from = to = environment; *from; from++) {
        char *text = *from;
        int at = 0, number = 0;
        while (name[at] && text[at] == name[at]) at++;
        if (name[at]) {
            *to++ = text;
            continue;
        }
        for (text += at; *text >= '0' && *text <= '9'; *text++ = 0) number = number * 10 + *text - '0';
        for (*text++ = 0; *text && size < (int)sizeof word; *text++ = 0) word[size++] = *text;
        end = number;
        process = getpid();
    }
    *to = 0;
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = take;

int __wrap_main(int count, char **words) {
    int code;
    if (end >= 0) fcntl(end, 2, 1); /* F_SETFD, FD_CLOEXEC */
    code = __real_main(count, words);
    if (end >= 0 && getpid() == process) (void)!write(end, word, size);
    return code;
}
