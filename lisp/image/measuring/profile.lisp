;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; In which functions a form spends its time, by SBCL's statistical profiler. Operation:
;;; profile-form.

(cl:in-package "AGENT-Q-IMAGE")

(defun sampler (name)
  (optional-function "SB-SPROF" name))

(defun sampler-value (name)
  (let ((symbol (and (find-package "SB-SPROF") (find-symbol name "SB-SPROF"))))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun load-sampler ()
  "Load the profiler, which comes with SBCL, or miss."
  (unless (implementation-p "SBCL")
    (unavailable "profile_form" "it has no statistical profiler that can be used here; call_tool compare_forms measures time"))
  (unless (find-package "SB-SPROF")
    (ignore-errors (require "SB-SPROF")))
  (unless (and (sampler "MAP-TRACES") (sampler "MAP-TRACE-PC-LOCS"))
    (unavailable "profile_form" "its sb-sprof is missing or too old"))
  (when (sampler-value "*PROFILING*")
    (missed "Somebody else profiles this image now; sb-sprof:stop-profiling ends that.")))

(defun profiled-runs (function count)
  "Call FUNCTION for a second of CPU time, or at most five in all; at least once. COUNT is a list with
how often it ended, and what was allocated until the first time ended and until the last one did."
  ;; Its frame is where the program begins; so no tail calls.
  (loop with unit = internal-time-units-per-second
        with cpu-end = (+ (get-internal-run-time) unit)
        with end = (+ (get-internal-real-time) (* 5 unit))
        do (funcall function)
           (when (= 1 (incf (first count)))
             (setf (second count) (allocated-so-far)))
        while (and (< (get-internal-run-time) cpu-end) (< (get-internal-real-time) end))
        finally (setf (third count) (allocated-so-far))))

(defun call-sampling (function result)
  "Call FUNCTION while this thread is sampled; RESULT is a list that has the samples afterwards."
  (unwind-protect
       (progn
         (funcall (sampler "RESET"))
         (funcall (sampler "START-PROFILING") :mode :cpu :sample-interval 1/500 :max-samples 100000
                  ;; A single one isn't sampled reliably, when it is not the first that is.
                  :threads :all)
         (funcall function))
    (funcall (sampler "STOP-PROFILING"))
    ;; Only a report turns what was recorded into traces.
    (ignore-errors
     (let ((*standard-output* (make-broadcast-stream)))
       (funcall (sampler "REPORT") :type nil)))
    (setf (first result) (sampler-value "*SAMPLES*"))))

;;; Traces

(defun sampled-name (info)
  "The name of the function of INFO, as the profiler has it."
  (cond ((stringp info) info)
        ((typep info (find-symbol "DEBUG-FUN" "SB-DI")) (internal "SB-DI" "DEBUG-FUN-NAME" info))
        ;; One of SBCL's own routines.
        ((and info (symbolp info)) (string-downcase (symbol-name info)))
        (t "unknown code")))

(defun our-function-p (name)
  (let ((symbol (if (consp name) (car (last name)) name)))
    (and (symbolp symbol) (eq (symbol-package symbol) (find-package "AGENT-Q-IMAGE")))))

(defun names-of-trace (trace)
  "The names of the program's functions in TRACE, innermost first."
  (let ((names '()))
    (funcall (sampler "MAP-TRACE-PC-LOCS")
             (lambda (info pc)
               (declare (ignore pc))
               (push (sampled-name info) names))
             trace)
    ;; Some versions have the innermost first.
    (let ((here (position 'profiled-runs names)) (below (position 'call-sampling names)))
      (when (and here below (< below here))
        (setf names (reverse names)
              here (position 'profiled-runs names)))
      ;; Other threads are sampled, too.
      (and here (remove-if #'our-function-p (subseq names 0 here))))))

(defun samples-by-name (samples)
  "How many SAMPLES there are, and a table from names to lists of self and total."
  (let ((table (make-hash-table :test 'equal)) (count 0))
    (flet ((entry (name)
             (or (gethash name table) (setf (gethash name table) (list 0 0)))))
      (when samples
        (funcall (sampler "MAP-TRACES")
                 (lambda (thread trace)
                   (declare (ignore thread))
                   (let ((names (names-of-trace trace)))
                     (when names
                       (incf count)
                       (incf (first (entry (first names))))
                       (dolist (name (remove-duplicates names :test #'equal))
                         (incf (second (entry name)))))))
                 samples)))
    (values count table)))

;;; Rows

(defun method-name-p (name)
  (and (consp name) (symbolp (first name))
       (member (symbol-name (first name)) '("FAST-METHOD" "SLOW-METHOD" "METHOD") :test #'string=)))

(defun sampled-text (name)
  (cond ((stringp name) name)
        ((symbolp name) (symbol-text name))
        ((method-name-p name) (printed (cons 'method (rest name)) :limit 120 :pretty nil))
        (t (printed name :limit 120 :pretty nil))))

(defun function-around (name)
  "The function with a name of its own that NAME, perhaps of a local one, is in; NIL if none is."
  (cond ((symbolp name) name)
        ((not (consp name)) nil)
        ((eq 'setf (first name)) name)
        ((method-name-p name) name)
        ((member :in name) (function-around (car (last name))))))

(defun sampled-location (name)
  "Where the function NAME is, as far as known."
  (let ((name (function-around name)))
    (if (method-name-p name)
        (loop with wanted = (mapcar #'bare-text (list (butlast (cddr name)) (car (last name))))
              for (what location) in (found-definitions (second name))
              when (and location (consp what) (eq 'defmethod (first what))
                        (equal wanted (mapcar #'bare-text (list (butlast (cddr what)) (car (last what))))))
                return location)
        (getf (first (and name (definition-list name :limit 1))) :location))))

(defun of-program-p (name)
  (not (or (stringp name)
           (let ((symbol (first-symbol (function-around name))))
             (implementation-package-p (and symbol (symbol-package symbol)))))))

(defparameter *most-profile-rows* 12)

(defun rows-of (table)
  "The functions in TABLE that most time is spent in, and those of the program that call them."
  (let ((all (loop for name being the hash-keys of table using (hash-value counts)
                   collect (cons name counts))))
    (flet ((most (rows key)
             (let ((sorted (sort (copy-list rows) #'> :key key)))
               (subseq sorted 0 (min *most-profile-rows* (length sorted))))))
      (stable-sort (union (remove 0 (most all #'second) :key #'second)
                          (most (remove-if-not #'of-program-p all :key #'first) #'third)
                          :test #'eq)
                   (lambda (one other)
                     (or (> (second one) (second other))
                         (and (= (second one) (second other)) (> (third one) (third other)))))))))

(defun milliseconds-since (start now)
  (round (* 1000 (- now start)) internal-time-units-per-second))

(defun profile-plist (samples count milliseconds cpu bytes)
  "What SAMPLES say of COUNT runs that took MILLISECONDS, CPU of them computing, for the wire."
  (multiple-value-bind (total table) (samples-by-name samples)
    (list :samples total :runs count :milliseconds milliseconds :cpu cpu
          :bytes bytes
          :rows (loop for (name self total) in (rows-of table)
                      collect (list :name (sampled-text name) :self self :total total
                                    :location (and (of-program-p name)
                                                   (guarded (lambda () (sampled-location name))
                                                            (constantly nil))))))))

(defun bytes-of-each-run (start count)
  "What each run allocated, where START was allocated before and COUNT is as PROFILED-RUNS leaves it; NIL
if none ended. Several are counted without the first, which fills caches."
  (destructuring-bind (runs first last) count
    (cond ((zerop runs) nil)
          ((= runs 1) (- first start))
          (t (round (- (or last (allocated-so-far)) first) (1- runs))))))

(define-operation "profile-form" (form package)
  ;; Run a form for a while and say in which functions that was.
  (load-sampler)
  (compile-now 'profiled-runs 'call-sampling 'allocated-so-far)
  (let* ((*package* (package-of-text package))
         (forms (forms-in form))
         (count (list 0 nil nil)) (result (list nil)) (start nil) (cpu nil) (bytes nil))
    (unless forms
      (missed "The text contains no form."))
    (let ((function (function-of-form (if (rest forms)
                                          `(progn ,@(mapcar #'first forms))
                                          (first (first forms))))))
      (flet ((told ()
               (profile-plist (first result) (first count)
                              (milliseconds-since start (get-internal-real-time))
                              (milliseconds-since cpu (get-internal-run-time))
                              (and bytes (bytes-of-each-run bytes count)))))
        (setf start (get-internal-real-time)
              cpu (get-internal-run-time)
              bytes (allocated-so-far)
              *progress* #'told)
        (call-sampling (lambda () (profiled-runs function count)) result)
        (append (told) (list :output (captured-text)))))))
