/* C code that strays: in a thread that Python does not know, and by an instruction that needs alignment. */
#include <pthread.h>
#include <stddef.h>

static void *read_one(void *address) {
    (void)*(volatile unsigned char *)address;
    return NULL;
}

void read_in_a_thread(void *address) {
    pthread_t thread;
    pthread_create(&thread, NULL, read_one, address);
    pthread_join(thread, NULL);
}

#if defined(__x86_64__)
void load_aligned(const void *address) { __asm__ volatile("movaps (%0), %%xmm0" : : "r"(address) : "xmm0"); }
#endif
