# The commit that is built, as a source file. Sets `build_commit_source`. A new commit configures anew.
set(BUILD_COMMIT unknown)
find_package(Git QUIET)
if(GIT_FOUND)
  # Git trusts no folders of other users by itself.
  set(git ${GIT_EXECUTABLE} -c safe.directory=${PROJECT_SOURCE_DIR} -C ${PROJECT_SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${git} rev-parse --path-format=absolute --git-path logs/HEAD OUTPUT_VARIABLE log
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND commit MATCHES "^[0-9a-f]+$")
    set(BUILD_COMMIT ${commit})
    if(EXISTS "${log}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
endif()
set(build_commit_source ${CMAKE_CURRENT_BINARY_DIR}/build_commit.cpp)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_commit.cpp.in ${build_commit_source} @ONLY)
