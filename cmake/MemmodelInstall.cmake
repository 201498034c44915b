# Filled by the folders that have something to install: see src/CMakeLists.txt.
