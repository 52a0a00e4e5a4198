/* As code that is compiled with -ffast-math does: from the moment it is loaded, subnormal numbers are 0. */
__attribute__((constructor)) static void flush(void) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 1ul << 24));
#endif
}

float half(float x) { return x * 0.5f; }
