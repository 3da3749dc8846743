/* Prints the code and the text of each error that has one, for tests/texts.py. */
#include <stdio.h>

#include "tautwire.h"

int main(void) {
    tw_result error;
    for (error = -1; error >= -256; error--) {
        if (strcmp(tw_error_text(error), tw_error_name(error)) != 0) {
            printf("%s\t%s\n", tw_error_name(error), tw_error_text(error));
        }
    }
    return 0;
}
