// bcryptprimitives.dll, which Wine 8 does not have: random bytes for libraries that are written in Rust.
#include <stddef.h>

unsigned char __stdcall SystemFunction036(void *bytes, unsigned long size);  // what Windows calls RtlGenRandom

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *bytes, size_t size) {
    const size_t most = 1 << 20;
    for (size_t done = 0; done < size; done += most) {
        const size_t wanted = size - done < most ? size - done : most;
        if (!SystemFunction036(bytes + done, (unsigned long)wanted)) return 0;
    }
    return 1;
}
