/*
 * Counts words on standard input.
 */
#include <ctype.h>
#include <stdio.h>

static int is_word(int c)
{
    return isalnum(c) || c == '_';
}

int main(void)
{
    long words = 0, lines = 0;
    int inside = 0;
    int c;

    while ((c = getchar()) != EOF) {
        if (c == '\n')
            lines++;
        if (is_word(c)) {
            if (!inside)
                words++;    /* a word begins */
            inside = 1;
        } else {
            inside = 0;
        }
    }
    printf("%ld %ld\n", lines, words); // as wc does
    return 0;
}
