// What nvcc makes of an extension with -cudart static: a section of kernels, and no libcudart among
// the libraries that it needs. It is never run: the import is refused before.
extern "C" {
__attribute__((section(".nv_fatbin"), used)) const unsigned kernels = 0xba55ed50;
__attribute__((visibility("default"))) void* PyInit_static_extension() { return nullptr; }
}
