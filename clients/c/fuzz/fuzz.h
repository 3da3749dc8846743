#ifndef FUZZ_H
#define FUZZ_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C"
#endif
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
