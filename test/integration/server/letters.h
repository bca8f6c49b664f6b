/* Owns: the content that the test server sends without making it: a long row of letters. */
#ifndef LETTERS_H
#define LETTERS_H

#define LETTERS_SIZE (32 * 1024 * 1024)

/* LETTERS_SIZE bytes, 'a' + position % 26, until the process ends. All of them are resident, so that no response makes
 * the process grow. Aborts on failure. */
const char *letters_new(void);

#endif
