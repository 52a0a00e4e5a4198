/* Random lanes and lattice values: Philox4x64-10 (Salmon et al., 2011) as numpy's raw output has it. */
#include "native.h"

#include <string.h>

enum { WORDS = 4, LANES_OF_BLOCK = 2 * WORDS };

/* The four words of the block with this number; numpy counts up before it computes, so that block 0 has counter 1. */
static void philox(const uint64_t key[2], uint64_t block, uint64_t words[WORDS]) {
    uint64_t low_key = key[0], high_key = key[1];
    uint64_t c0 = block + 1, c1 = c0 == 0, c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        unsigned __int128 first = (unsigned __int128)0xd2e7470ee14c6c93 * c0;
        unsigned __int128 second = (unsigned __int128)0xca5a826395121157 * c2;
        c0 = (uint64_t)(second >> 64) ^ c1 ^ low_key;
        c1 = (uint64_t)second;
        c2 = (uint64_t)(first >> 64) ^ c3 ^ high_key;
        c3 = (uint64_t)first;
        low_key += 0x9e3779b97f4a7c15;
        high_key += 0xbb67ae8584caa73b;
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

/* The lanes of a block: of each word the low half first. */
static void lanes_of(const uint64_t key[2], uint64_t block, uint32_t lanes[LANES_OF_BLOCK]) {
    uint64_t words[WORDS];
    philox(key, block, words);
    for (int i = 0; i < WORDS; i++) {
        lanes[2 * i] = (uint32_t)words[i];
        lanes[2 * i + 1] = (uint32_t)(words[i] >> 32);
    }
}

/* `count` lanes from lane `start` on. */
EXPORTED void mluops_lanes(const uint64_t *key, uint64_t start, int64_t count, uint32_t *out) {
    uint32_t lanes[LANES_OF_BLOCK];
    uint64_t block = start / LANES_OF_BLOCK;
    int64_t skip = (int64_t)(start % LANES_OF_BLOCK);
    for (int64_t done = 0; done < count; block++, skip = 0) {
        lanes_of(key, block, lanes);
        int64_t taken = LANES_OF_BLOCK - skip < count - done ? LANES_OF_BLOCK - skip : count - done;
        memcpy(out + done, lanes + skip, (size_t)taken * sizeof *lanes);
        done += taken;
    }
}

/* The lattice values of `count` lanes from `start`, a multiple of 8, on: the lowest bit is the sign, the other 31 pick one
 * of the `most` magnitudes. */
EXPORTED void mluops_lattice(const uint64_t *key, uint64_t start, int64_t count, uint64_t most, float scale, float *out) {
    enum { AT_ONCE = 32 * LANES_OF_BLOCK };
    uint32_t lanes[AT_ONCE], span = (uint32_t)most;
    for (int64_t done = 0; done < count; done += AT_ONCE) {
        int64_t taken = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (int64_t i = 0; i < taken; i += LANES_OF_BLOCK)
            lanes_of(key, (start + (uint64_t)(done + i)) / LANES_OF_BLOCK, lanes + i);
        for (int64_t i = 0; i < taken; i++) {
            float magnitude = (float)(int32_t)(((uint64_t)(lanes[i] >> 1) * span >> 31) + 1);
            uint32_t sign = lanes[i] << 31, bits;
            memcpy(&bits, &magnitude, sizeof bits);
            bits |= sign;
            memcpy(&magnitude, &bits, sizeof bits);
            out[done + i] = magnitude * scale;
        }
    }
}
