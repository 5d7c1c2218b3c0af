;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What kills the Lisp process without quitting: unmapping its memory, and signals without a
;;; handler.

(cl:in-package "AGENT-Q-IMAGE")

(defun address-of (place)
  "PLACE as a number; it may be an SBCL address object."
  (if (integerp place) place (internal "SB-SYS" "SAP-INT" place)))

(defun memory-words (address)
  (format nil "the memory of this process at #x~X" (address-of address)))

(defun effect-of-unmapping (arguments)
  (effect-of-taking-over (memory-words (first arguments))))

(defun call-allocating (watch hold function arguments)
  "Allocate memory, which the call may free."
  (declare (ignore watch))
  (let ((address (apply function arguments)))
    (setf (gethash (memory-words address) (consent-written (first hold))) t)
    address))

(defun call-giving-back (watch hold function arguments)
  "Let the profiler free what C allocated for it."
  (call-covering watch hold '(:memory) function arguments))

(defun effect-of-mapping (arguments)
  "The effect of mapping memory: at a fixed address, that replaces what is there."
  (destructuring-bind (address length protection flags &rest more) arguments
    (declare (ignore length protection more))
    (when (and (integerp flags) (logtest flags #x10))
      (effect-of-unmapping (list address)))))

(defun effect-of-freeing (arguments)
  "The effect of passing memory to C's free that isn't C's."
  (let ((address (address-of (internal "SB-ALIEN-INTERNALS" "ALIEN-VALUE-SAP" (first arguments)))))
    (when (or (logtest address 7) (lisp-memory-p address))
      (effect-of-unmapping (list address)))))

(defun lisp-memory-p (address)
  "Whether ADDRESS is among Lisp objects, compared with a new one."
  (< (abs (- address (internal "SB-KERNEL" "GET-LISP-OBJ-ADDRESS" (list nil))))
     (internal "SB-EXT" "DYNAMIC-SPACE-SIZE")))

(defun own-buffer-work-p (work)
  "Whether WORK is the finalizer that SBCL sets for each stream buffer."
  (let ((maker (optional-function "SB-IMPL" "ALLOC-BUFFER")))
    (and maker (functionp work)
         (flet ((code (function)
                  (internal "SB-KERNEL" "FUN-CODE-HEADER"
                            (internal "SB-KERNEL" "%FUN-FUN" (unguarded function)))))
           (eq (code work) (code maker))))))

;;; Signals

(defun effect-of-interval (arguments)
  "The effect of starting a timer whose signal, without a handler, would kill the Lisp process."
  (destructuring-bind (timer &rest times) arguments
    (let ((signal (getf '(:real 14 :virtual 26 :profile 27) timer)))
      (unless (or (every (lambda (it) (eql it 0)) times)
                  (handled-signal-p signal))
        (effect-of-taking-over "the signals of this process")))))

(defun handled-signal-p (signal)
  "Whether SIGNAL, a number or NIL, has a handler. If the system doesn't say, assume that timers
have one."
  (let ((handled (ignore-errors
                  (with-open-file (stream "/proc/self/status")
                    (loop for line = (read-line stream)
                          when (prefixed-p "SigCgt:" line)
                            return (parse-integer line :start 7 :radix 16))))))
    (cond ((null signal) nil)
          (handled (logbitp (1- signal) handled))
          (t (/= signal 26)))))
