/* Owns: forms as clients send them (forms.c). */
#ifndef UVHTTP_TEST_SIM_FORMS_H
#define UVHTTP_TEST_SIM_FORMS_H

#include "sim.h"

extern const char sim_form_type[]; /* Content-Type */
/* Bytes of the form of a request with these numbers. */
uint32_t sim_form_size(uint32_t size, uint32_t ms);
/* The status that it has to bring; 0: that of its handler. */
int sim_form_refusal(uint32_t size, uint32_t ms);
/* The form; freed with free(3). */
char *sim_form_new(uint32_t tag, uint32_t size, uint32_t ms);

#endif
