# Install rules: the program and what it starts are installed where they are built; here are the libraries, their
# headers, the CMake package memmodel (targets memmodel::memmodel, the core, and memmodel::c) and the pkg-config
# file memmodel.
include(CMakePackageConfigHelpers)

set_target_properties(memmodel PROPERTIES EXPORT_NAME memmodel)
install(TARGETS memmodel memmodel_c EXPORT memmodelTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT memmodel-dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT memmodel-dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/memmodel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT memmodel-dev)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/memmodel)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/memmodel)
install(EXPORT memmodelTargets NAMESPACE memmodel:: DESTINATION ${package_dir} COMPONENT memmodel-dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/memmodelConfig.cmake.in ${PROJECT_BINARY_DIR}/memmodelConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/memmodelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/memmodelConfig.cmake ${PROJECT_BINARY_DIR}/memmodelConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT memmodel-dev)

# The prefix follows from the file's own place, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/memmodel.pc.in ${PROJECT_BINARY_DIR}/memmodel.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/memmodel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT memmodel-dev)
