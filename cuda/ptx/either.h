// Lets one text be an instruction for nvcc, and a call of the model of a GPU for the host compiler.
#pragma once

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/hopper.h"
#include "cuda/emulator/tensor_core.h"
#endif

// RINGSCOPE_EITHER(the model's call, statements for a GPU)
#ifdef RINGSCOPE_MODEL
#define RINGSCOPE_EITHER(MODEL, ...) MODEL
#else
#define RINGSCOPE_EITHER(MODEL, ...) __VA_ARGS__
#endif

// An instruction without operands that no access of memory may pass.
#define RINGSCOPE_PTX(TEXT) asm volatile(TEXT ::: "memory")
