;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Running tests and reporting what failed. Operations: run-tests, test-place.

(cl:in-package "AGENT-Q-IMAGE")

;;; What to run

(defun test-candidates (text package)
  "The symbols and packages that TEXT, read in PACKAGE, may mean."
  (if (find #\: text)
      (list (symbol-of-token text package))
      (append (find-all-symbols (token-name (or (scan-token text) (missed "~S is not a name." text))))
              (let ((named (find-package-named text)))
                (and named (list named))))))

(defun no-such-test (text)
  "End the operation: TEXT names nothing that can be run. The answer says what does."
  (let* ((names (test-names))
         (bare (subseq text (1+ (or (position #\: text :from-end t) -1))))
         (near (nearest bare (loop for (name full) in names collect (cons name full))))
         (all (sort (mapcar #'second names) #'string<)))
    (missed "~A is not a test or suite of ~:[any test framework: none is loaded~;~:*~{~A~^, ~}~].~@[ Near names: ~{~A~^, ~}.~]~@[ There are ~{~A~^, ~}~]~:[~;~:* and ~D more~]~:[~;.~] If it belongs to a system that is not loaded, load that first, with load_system or the argument system."
            text (framework-titles (loaded-frameworks))
            near
            (unless near (page all 0 10))
            (and (not near) (> (length all) 10) (- (length all) 10))
            (and (not near) all))))

(defun test-runner (text package)
  "The function that runs the test or suite TEXT, and the symbol or package that TEXT is."
  (dolist (candidate (test-candidates (string-left-trim "'" (trimmed text)) package)
                     (no-such-test text))
    (dolist (framework (loaded-frameworks))
      (let ((runner (guarded (lambda ()
                               (ask-framework framework #'test-framework-runner candidate))
                             (constantly nil))))
        (when runner
          (return-from test-runner (values runner candidate)))))))

(defun tested-systems (name)
  "The systems whose test operations the one of the system NAME performs, NAME last."
  (let* ((operation (find-symbol "TEST-OP" "ASDF"))
         (plan (guarded (lambda ()
                          (funcall (asdf-function "MAKE-PLAN") nil
                                   (funcall (asdf-function "MAKE-OPERATION") operation)
                                   (find-system-named name)))
                        (constantly nil))))
    (loop for action in (and plan (guarded (lambda ()
                                             (funcall (asdf-function "PLAN-ACTIONS") plan))
                                           (constantly '())))
          when (and (consp action) (typep (car action) operation))
            collect (asdf-call "COMPONENT-SYSTEM" (cdr action)))))

(defun load-tests-of (systems)
  "Load the systems that contain the tests of SYSTEMS: they may bring the framework, whose results
can only be observed if it is there beforehand."
  (dolist (system systems)
    (load-system-named (asdf-call "COMPONENT-NAME" system) nil)))

(defun system-runner (name)
  "The function that runs the tests of the system NAME."
  (let ((test (asdf-function "TEST-SYSTEM")))
    (lambda () (funcall test name))))

(defun changed-systems ()
  "The names of the project's loaded systems whose files have changed since."
  (loop for entry in *project-systems*
        for name = (getf entry :name)
        for system = (and (find-package "ASDF") (registered-system name))
        when (and system
                  (null (second-copy (getf entry :file)))
                  (loaded-system-p system)
                  (some #'component-state (source-components system)))
          collect name))

(defun load-changed-systems (wanted)
  "Load the project's systems that have changed, except WANTED, which is loaded anyway. An error in
one of them doesn't keep the tests from running: its files count as failed, and nothing else is
reported."
  (dolist (name (changed-systems))
    (unless (equal name wanted)
      (let ((notes (first *notes*)))
        (catch 'missed
          (guarded (lambda () (load-system-named name nil) (setf notes (first *notes*)))
                   (constantly nil)))
        (setf (first *notes*) notes)))))

(defun tests-in (packages framework)
  "What FRAMEWORK can run in PACKAGES: packages, or symbols that don't run as part of another."
  (flet ((ask (accessor &rest arguments)
           (guarded (lambda () (apply #'ask-framework framework accessor arguments))
                    (constantly '()))))
    (let ((names (remove-if-not (lambda (it)
                                  (member (if (packagep it) it (symbol-package it)) packages))
                                (ask #'test-framework-names))))
      (cond ((every #'packagep names) names)
            ((test-framework-inner framework)
             (set-difference names (loop for name in names
                                         append (ask #'test-framework-inner name))))))))

(defun tests-of-system (name)
  "What can be run in the packages that the files of the system NAME define: lists of a text and a
function that runs it."
  (let ((packages (loop for (nil text) in (defined-packages (source-components (find-system-named name)))
                        collect (find-package text))))
    (loop for framework in (loaded-frameworks)
          append (loop for test in (reverse (tests-in packages framework))
                       for runner = (guarded (lambda ()
                                               (ask-framework framework #'test-framework-runner test))
                                             (constantly nil))
                       when runner
                         collect (list (if (packagep test) (package-name test) (symbol-text test))
                                       runner)))))

(defun run-system-tests (system)
  "Three values: the results of the tests of SYSTEM, the report of what ended them, if anything did,
and the names of the tests that were run instead, if its test operation runs none."
  ;; Its test operation may load and compile more.
  (multiple-value-bind (results problem)
      (call-observing-asdf (lambda () (run-observed (system-runner system))))
    (let ((tests (and (null results) (null problem) (string= "" (trimmed (captured-text)))
                      (guarded (lambda () (tests-of-system system)) (constantly '())))))
      (if tests
          (multiple-value-bind (results problem)
              (run-observed (lambda () (mapc #'funcall (mapcar #'second tests))))
            (values results problem (mapcar #'first tests)))
          (values results problem '())))))

(defun tested-facts (name systems)
  "For the wire: which systems have the tests of the system NAME, if SYSTEMS do."
  (let* ((others (remove name systems
                         :key (lambda (it) (asdf-fact "COMPONENT-NAME" it)) :test #'equal))
         (told (or others (list (find-system-named name)))))
    (list* :tested (loop for system in told
                         collect (list :system (asdf-fact "COMPONENT-NAME" system)
                                       :file (system-file system)))
           (let ((facts (system-facts (first told))))
             (list :system (getf facts :system) :other (getf facts :other))))))

;;; Once more

(defvar *last-failed* '()
  "The names of the tests that failed when tests last ran.")

(lasts-for-the-process '*last-failed*)

(defun note-failed (results)
  "Note which tests failed by RESULTS; NIL stands for one without a name."
  (setf *last-failed*
        (remove-duplicates
         (loop for entry in (result-entries results)
               unless (member (getf entry :status) '("passed" "skipped") :test #'string=)
                 collect (first (ran-tests (list entry))))
         :test #'equal)))

(defun failed-runner ()
  "The function that runs the tests again that failed when tests last ran."
  (let ((runners (loop for name in *last-failed*
                       unless name
                         do (missed "The tests that failed last have no names by which they can be run again: give a suite.")
                       collect (test-runner name *package*))))
    (lambda () (mapc #'funcall runners))))

;;; Parking a failed check

(define-condition failed-check (condition)
  ((text :initarg :text :reader failed-check-text))
  (:report (lambda (condition stream) (write-string (failed-check-text condition) stream))))

(defun call-parking-failure (debugger function)
  "Call FUNCTION; the first check that fails is parked under the name DEBUGGER, if there is one."
  (let* ((parked (list (null debugger)))
         (*on-failure* (lambda (entry)
                         (unless (first parked)
                           (setf (first parked) t)
                           (with-simple-restart (continue "Go on with the tests.")
                             (park (make-condition
                                    'failed-check
                                    :text (format nil "~A~@[ in ~A~]~@[: ~A~]~@[~%~A~]"
                                                  (getf entry :status) (getf entry :test)
                                                  (getf entry :expression) (getf entry :reason)))
                                   debugger))))))
    (funcall function)))

;;; Running

(defun check-count (entries &rest statuses)
  (loop for entry in entries
        when (member (getf entry :status) statuses :test #'string=)
          sum (getf entry :count 1)))

(defun ran-tests (entries)
  "The names of the tests in ENTRIES; none if a framework doesn't tell them."
  (let ((names (loop for entry in entries
                     collect (and (test-framework-names-tests
                                   (find (getf entry :framework) *frameworks*
                                         :key #'test-framework-title :test #'string=))
                                  (getf entry :test)))))
    (unless (member nil names)
      (remove-duplicates names :test #'string=))))

(defparameter *ran-limit* 1000
  "The names of how many tests that ran to tell.")

(defun summary (results problem &optional only)
  "What RESULTS say, for the wire; if ONLY is given, only about that test. PROBLEM is what ended the
run, if anything did."
  (let* ((entries (result-entries results))
         (passed (check-count entries "passed"))
         (skipped (check-count entries "skipped"))
         (total (loop for entry in entries sum (getf entry :count 1)))
         (tests (ran-tests entries))
         (told (remove "passed" entries
                       :key (lambda (entry) (getf entry :status)) :test #'string=)))
    (list :frameworks (remove-duplicates (mapcar (lambda (entry) (getf entry :framework)) entries)
                                         :test #'string=)
          :known (framework-titles *frameworks*)
          :total total
          :tests (length tests)
          :ran (page tests 0 *ran-limit*)
          :test (or only (and tests (null (rest tests)) (first tests)))
          :passed passed
          :skipped skipped
          :failed (- total passed skipped)
          :results (loop for entry in told repeat *result-limit* collect entry)
          :more (max 0 (- (length told) *result-limit*))
          :problem problem
          ;; An unknown framework may print its results as comments.
          :output (if (plusp total) (without-compiler-output (captured-text)) (captured-text)))))

(defun failed-results-p (results)
  (find-if-not (lambda (entry) (member (getf entry :status) '("passed" "skipped") :test #'string=))
               (result-entries results)))

(defun run-observed (runner)
  "Call RUNNER, which may load a framework; returns the results, and what ended it, if anything did."
  (let* ((frameworks (loaded-frameworks))
         (problem nil))
    (flet ((run ()
             (call-observing (lambda () (setf problem (run-to-end runner))))))
      (let ((results (run)))
        ;; If a framework was only loaded now, its tests ran unobserved: run them again.
        (unless (or results (equal frameworks (loaded-frameworks)))
          (setf results (run)))
        (values results problem)))))

(define-operation "test-place" (test suite package)
  ;; The file that defines the package of a test or suite, which tells whose it is.
  (let* ((*package* (package-of-text package))
         (found (nth-value 1 (test-runner (or test suite (missed "No test is named.")) *package*)))
         (home (if (symbolp found) (symbol-package found) found)))
    (list :file (and (packagep home) (package-source home)))))

(define-operation "run-tests" (system suite test package restart on-error debugger systems file affected changed)
  ;; Run a test, a suite, all tests of a system, those AFFECTED by what was CHANGED, lists of :file and
  ;; :names, or those that failed last, and report the outcome. RESTART leaves an error. If ON-ERROR is
  ;; "park", the first failure is kept under the name DEBUGGER.
  (let* ((*notes* (list '()))
         (*build* (make-build))
         (*package* (package-of-text package))
         (system (and system (if file
                                 (name-of-file file system systems)
                                 (system-name-of-text system))))
         (target (or test suite))
         (again (and (not system) (not target) (not affected) *last-failed*))
         (debugger (and (equal on-error "park") debugger))
         (before *last-change*))
    (unless (or system target affected again)
      (missed "Give a system, a suite or a test to run: no test failed when this image last ran some."))
    (setf *results* '())
    (flet ((work ()
             (setf *changed-elsewhere*
                   (union *changed-elsewhere*
                          (files-changed-elsewhere (mapcar (lambda (it) (getf it :file)) changed))
                          :test #'equal))
             (load-changed-systems system)
             (when system
               (setf *progress* (loading-progress system))
               (load-system-named system nil))
             (let ((tested (and system (not target) (tested-systems system)))
                   (recoveries *recoveries*))
               (load-tests-of tested)
               (setf *progress* (lambda ()
                                  (append (summary *results* nil) (recoveries-of recoveries))))
               (multiple-value-bind (runner found) (cond (target (test-runner target *package*))
                                                         (again (failed-runner)))
                 (multiple-value-bind (results problem instead reach)
                     (cond (runner (run-observed runner))
                           (affected (multiple-value-bind (results problem facts)
                                         (run-affected system changed)
                                       (values results problem '() facts)))
                           (t (run-system-tests system)))
                   (note-failed results)
                   (when (and results (not target) (not again) (not problem)
                              (not (failed-results-p results)))
                     (note-all-passed before))
                   (append reach
                           (and system (not affected) (tested-facts system tested))
                           (summary results problem (and test (symbolp found) (symbol-text found)))
                           (list :instead instead :again again)
                           (unless (or results problem target again affected)
                             (absence-facts system (captured-text)))
                           (recoveries-of recoveries)
                           (list :failed-files (mapcar #'file-namestring
                                                       (remove-if-not #'date-of *failed-files*)))
                           (and (or system (build-compiled *build*))
                                (append (reported-notes) (build-facts)))))))))
      (call-recovering restart
                       (lambda ()
                         (call-parking-failure debugger
                                               (lambda () (call-with-project systems #'work))))
                       (lambda (condition)
                         (when (and debugger (not (heap-exhausted-p condition)))
                           (park condition debugger)))))))
