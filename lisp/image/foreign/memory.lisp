;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What ends the Lisp without ending it: memory that is taken from under it, and signals that nobody
;;; handles.

(cl:in-package "AGENT-Q-IMAGE")

(defun address-of (place)
  "The number of PLACE, one itself or what SBCL has for an address."
  (if (integerp place) place (internal "SB-SYS" "SAP-INT" place)))

(defun memory-words (address)
  (format nil "the memory of this process at #x~X" (address-of address)))

(defun effect-of-unmapping (arguments)
  (effect-of-taking-over (memory-words (first arguments))))

(defun call-allocating (watch hold function arguments)
  "Get memory, which the call may give back."
  (declare (ignore watch))
  (let ((address (apply function arguments)))
    (setf (gethash (memory-words address) (consent-written (first hold))) t)
    address))

(defun call-giving-back (watch hold function arguments)
  "The profiler gives back what C got for it."
  (call-covering watch hold '(:memory) function arguments))

(defun effect-of-mapping (arguments)
  "Mapping a file or nothing into memory: at a fixed place it replaces what is there."
  (destructuring-bind (address length protection flags &rest more) arguments
    (declare (ignore length protection more))
    (when (and (integerp flags) (logtest flags #x10))
      (effect-of-unmapping (list address)))))

(defun effect-of-freeing (arguments)
  "Giving memory back to C that isn't C's."
  (let ((address (address-of (internal "SB-ALIEN-INTERNALS" "ALIEN-VALUE-SAP" (first arguments)))))
    (when (or (logtest address 7) (lisp-memory-p address))
      (effect-of-unmapping (list address)))))

(defun lisp-memory-p (address)
  "Whether ADDRESS is where Lisp's objects are, by a new one."
  (< (abs (- address (internal "SB-KERNEL" "GET-LISP-OBJ-ADDRESS" (list nil))))
     (internal "SB-EXT" "DYNAMIC-SPACE-SIZE")))

(defun own-buffer-work-p (work)
  "Whether WORK is what SBCL has done for each buffer of a stream that is no longer needed."
  (let ((maker (optional-function "SB-IMPL" "ALLOC-BUFFER")))
    (and maker (functionp work)
         (flet ((code (function)
                  (internal "SB-KERNEL" "FUN-CODE-HEADER"
                            (internal "SB-KERNEL" "%FUN-FUN" (unguarded function)))))
           (eq (code work) (code maker))))))

;;; Signals

(defun effect-of-interval (arguments)
  "Having the system send a signal after a while: one that nobody handles ends the Lisp."
  (destructuring-bind (timer &rest times) arguments
    (let ((signal (getf '(:real 14 :virtual 26 :profile 27) timer)))
      (unless (or (every (lambda (it) (eql it 0)) times)
                  (handled-signal-p signal))
        (effect-of-taking-over "the signals of this process")))))

(defun handled-signal-p (signal)
  "Whether SIGNAL, a number or NIL, has a handler. Where the system doesn't say, that of timers has."
  (let ((handled (ignore-errors
                  (with-open-file (stream "/proc/self/status")
                    (loop for line = (read-line stream)
                          when (prefixed-p "SigCgt:" line)
                            return (parse-integer line :start 7 :radix 16))))))
    (cond ((null signal) nil)
          (handled (logbitp (1- signal) handled))
          (t (/= signal 26)))))
