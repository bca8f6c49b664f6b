/* Owns: the mark of the functions that every request runs through. They are laid next to each other, so that a request
 * touches half the pages of code (12, not 24). May include: nothing. */
#ifndef UVHTTP_SRC_BASE_HOT_H
#define UVHTTP_SRC_BASE_HOT_H

#define UVHTTP__HOT __attribute__((hot))

#endif
