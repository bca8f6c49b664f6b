/* Owns: the proof that an installed uvhttp can be found, compiled against, linked and called, from C and from C++. */
#include <stdio.h>
#include <uvhttp.h>

int main(void) {
    printf("%s\n", uvhttp_version());
    return uvhttp_error_name(UVHTTP_E_NOMEM)[0] == 'U' ? 0 : 1;
}
