# What `cmake --install` puts where Debian expects it, and the Debian package of it (`cpack -G DEB`, `./ringscope package`).
# The man page and the completions of bash and zsh are the program's own words, from the table that reads the command line.
include(GNUInstallDirs)

# The text that `demo` runs on.
file(GLOB_RECURSE demo_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/*.h ${PROJECT_SOURCE_DIR}/core/*.cpp)
set(demo_text ${CMAKE_CURRENT_BINARY_DIR}/sources.txt)
add_custom_command(OUTPUT ${demo_text} COMMAND cat ${demo_sources} > ${demo_text} DEPENDS ${demo_sources} VERBATIM)
target_sources(ringscope PRIVATE ${demo_text})

install(TARGETS ringscope RUNTIME)
foreach(level ${RINGSCOPE_CPU_LEVELS})
  install(TARGETS ringscope_${level} RUNTIME)
endforeach()
if(SKBUILD)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/python/wheel/ringscope DESTINATION ${SKBUILD_SCRIPTS_DIR})
endif()
if(TARGET ringscope_gpu)
  install(TARGETS ringscope_gpu RUNTIME OPTIONAL)
endif()
set(pages ${CMAKE_CURRENT_BINARY_DIR}/pages)
install(CODE "
  file(MAKE_DIRECTORY \"${pages}\")
  foreach(page man bash zsh)
    execute_process(COMMAND \"$<TARGET_FILE:ringscope>\" help \${page} OUTPUT_FILE \"${pages}/\${page}\"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND gzip -9nf \"${pages}/man\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${pages}/man.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME ringscope.1.gz)
install(FILES ${pages}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ringscope)
install(FILES ${pages}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _ringscope)
install(FILES ${demo_text} DESTINATION ${CMAKE_INSTALL_DATADIR}/ringscope)
# The pages lie as in the source folder, so that their links hold.
file(GLOB_RECURSE documents CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/app/*.md
     ${PROJECT_SOURCE_DIR}/bench/*.md ${PROJECT_SOURCE_DIR}/core/*.md ${PROJECT_SOURCE_DIR}/cuda/*.md
     ${PROJECT_SOURCE_DIR}/lessons/*.md ${PROJECT_SOURCE_DIR}/lessons/*.svg ${PROJECT_SOURCE_DIR}/viz/*.png ${PROJECT_SOURCE_DIR}/viz/*.webp
     ${PROJECT_SOURCE_DIR}/python/*.md ${PROJECT_SOURCE_DIR}/python/examples/*.py)
# The viewer for browsers, if `./ringscope site` has built it.
install(FILES ${PROJECT_SOURCE_DIR}/build/wasm/viz/browser/ringscope_web.js DESTINATION ${CMAKE_INSTALL_DATADIR}/ringscope OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
foreach(document README.md CONTRIBUTING.md NOTICE CITATION.cff ${documents})
  get_filename_component(folder ${document} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

# The library, for `find_package(ringscope)`: all of core/, with the flags that its headers were compiled with. The Debian
# package leaves it out.
set(library_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringscope)
set_target_properties(ringscope_core PROPERTIES EXPORT_NAME core)
set_target_properties(ringscope_flags PROPERTIES EXPORT_NAME flags)
install(TARGETS ringscope_core ringscope_flags EXPORT ringscopeTargets ARCHIVE COMPONENT library)
install(EXPORT ringscopeTargets NAMESPACE ringscope:: DESTINATION ${library_folder} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core DESTINATION include/ringscope COMPONENT library
        FILES_MATCHING PATTERN "*.h")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/ringscopeConfig.cmake "include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(Eigen3 NO_MODULE)
find_dependency(fmt)
find_package(ZLIB QUIET)
include(\${CMAKE_CURRENT_LIST_DIR}/ringscopeTargets.cmake)
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ringscopeConfig.cmake DESTINATION ${library_folder} COMPONENT library)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};${PROJECT_NAME};Unspecified;/")

set(CPACK_PACKAGE_NAME ringscope)
set(CPACK_PACKAGE_CONTACT "The developers of Ringscope")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Ring attention, layer by layer, recorded")
set(CPACK_PACKAGE_DESCRIPTION "An educational reference implementation of ring attention: exact attention over a sequence
that is dealt out to several ranks, forward and backward, with lessons, a simulator and a viewer of recorded runs.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION education)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
include(CPack)
