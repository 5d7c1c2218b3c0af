;;; agent-q-assess-later-test.el --- Code that becomes something else  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a form makes of those after it, what an earlier call has stored, and what
;; is there only once a macro is expanded: all is looked at before it runs.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-assess)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)

;;;; Forms that become something else

(defun agent-q-assess-later-test--later (connection name operation why)
  "Run the texts of fixture NAME by OPERATION over CONNECTION, unasked.
None looks dangerous; each has to be stopped, in words that WHY matches."
  (agent-q-test-assess-prepare connection)
  (dolist (form (agent-q-test-assess-fixture-forms name connection))
    (ert-info ((format "%s %s" operation form))
      (let ((value (agent-q-test-assess-form connection form)))
        (should-not (plist-get value :hits))
        (should (string-match-p why (or (agent-q-test-assess-stopped
                                         connection form (plist-get value :settled) operation)
                                        ""))))
      (agent-q-test-image-values connection "(shop::unlearn)")
      (should (equal '("NIL") (agent-q-test-image-values connection "shop::*harm*")))
      (should-not (file-exists-p (agent-q-test-assess-harm))))))

(defconst agent-q-assess-later-test--after
  "\\`Form [2-9] was not run, because it .* ha\\(s\\|ve\\) run, and only then could"
  "What is said of a form that has become something else.")

(agent-q-test-image-on-each what-a-form-makes-of-later-ones-is-seen ()
  "Features, packages, macros and names that a form brings are known to the forms after it."
  (dolist (operation '("eval-form" "compile-form"))
    (agent-q-assess-later-test--later
     connection "later.txt" operation agent-q-assess-later-test--after)))

(agent-q-test-image-on-each what-evaluating-makes-of-the-rest-is-seen ()
  "What is evaluated part by part is looked at part by part; printers run between forms."
  (agent-q-assess-later-test--later
   connection "later-evaluated.txt" "eval-form"
   (concat "\\`A part of form 1 was not run\\|was not expanded and run\\|"
           agent-q-assess-later-test--expanded "\\|" agent-q-assess-later-test--after)))

(defconst agent-q-assess-later-test--expanded
  "\\`What .* expands to was not run, because it .*Only while it was expanded could"
  "What is said of a form whose macro makes something that was not seen before.")

(agent-q-test-image-on-each what-expands-to-harm-only-when-it-runs-is-seen ()
  "What macros of the text, places and moody macros of the program make is looked at then."
  (dolist (operation '("eval-form" "compile-form"))
    (agent-q-assess-later-test--later connection "later-expanded.txt" operation
                                      (concat agent-q-assess-later-test--expanded "\\|"
                                              agent-q-assess-later-test--after))))

(agent-q-test-image-on-each what-was-assessed-of-a-text-that-is-lost ()
  "Forms that were assessed are looked at again when that is forgotten meanwhile."
  (agent-q-test-assess-prepare connection)
  (should (agent-q-test-assess-stopped connection "(uiop:run-program \"true\")" 1)))

(agent-q-test-image-on-each looking-again-costs-little ()
  "A text whose forms are looked at in their turn takes no more than a few times its evaluation."
  (agent-q-test-assess-prepare connection)
  (let* ((form "(defvar *aq-l* (list 1 2 3)) (setf *aq-l* (mapcar #'1+ *aq-l*)) (print *aq-l*)")
         (time (lambda (&rest arguments)
                 (let ((start (float-time)))
                   (dotimes (_ 20)
                     (agent-q-test-assess-form connection form)
                     (apply #'agent-q-test-image-values connection form arguments))
                   (- (float-time) start))))
         (settled (plist-get (agent-q-test-assess-form connection form) :settled)))
    (should (= 1 settled))
    (funcall time)
    (should (agent-q-test-once (< (funcall time :assessed settled) (* 4 (funcall time)))))))

(agent-q-test-image-on-each looking-does-not-grow-with-the-image ()
  "Fifty thousand more symbols in the current package make no difference to an assessment."
  (agent-q-test-assess-prepare connection)
  (let ((milliseconds
         (lambda ()
           (string-to-number
            (agent-q-test-image-directly
             connection
             "(let ((agent-q-image::*client* (if (find-package :swank) :swank :slynk))
                    (start (get-internal-real-time)))
                (dotimes (i 100)
                  (agent-q-image::perform
                   \"assess-form\" '(:form \"(let ((never-read-of 1)) (1+ never-read-of))\")))
                (floor (- (get-internal-real-time) start)
                       (floor internal-time-units-per-second 1000)))")))))
    (agent-q-test-assess-form connection "(+ 1 2)")
    (funcall milliseconds)
    (let ((before (min (funcall milliseconds) (funcall milliseconds))))
      (agent-q-test-image-directly
       connection "(dotimes (i 50000) (intern (format nil \"AQ-ONE-OF-MANY-~D\" i) :cl-user))")
      (should (agent-q-test-once (< (funcall milliseconds) (+ 100 (* 2 before)))))))
  (agent-q-test-image-directly
   connection "(do-symbols (name :cl-user)
                 (when (search \"AQ-ONE-OF-MANY\" (symbol-name name)) (unintern name :cl-user)))"))

(agent-q-test-image-on-each what-code-is-compared-with-can-not-be-changed ()
  "There is no variable for the tables, and what is entered in the others later has no effect."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-image-directly
   connection
   "(progn (do-symbols (name :agent-q-image)
             (when (and (eq (symbol-package name) (find-package :agent-q-image))
                        (search \"+\" (symbol-name name)))
               (when (boundp name) (set name nil))
               (fill (or (ignore-errors (copy-list (second (macroexpand-1 name)))) (list 1)) nil)))
           (setf agent-q-image::*walkers* '() agent-q-image::*call-checks* '()))")
  (dolist (form '("(uiop:run-program \"true\")" "(open \"x\" :direction :output)"
                  "(with-open-file (s \"x\" :direction :output) s)" "(eval (list (print 'x)))"))
    (should (agent-q-test-assess-hit-p connection form))))

(agent-q-test-image-on-each what-has-just-arrived-is-not-taken-for-the-text ()
  "Modules that are still interpreted expand macros of their own while a text runs."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-image-values connection "(delete-package :agent-q-image)")
  (agent-q-test-assess-form connection "(list (shop::tax 1))")
  (should (equal '("(1/5)")
                 (agent-q-test-image-values connection "(list (shop::tax 1))" :assessed 1))))

;;;; In two calls

(defconst agent-q-assess-later-test--two-calls
  '(("(defvar shop::*name* (intern (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(funcall shop::*name* \"HARM\")")
    ("(setf (gethash :it shop:*catalog*) (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(let ((name (gethash :it shop:*catalog*))) (funcall name \"HARM\"))")
    ("(setf (get 'shop::it 'shop::does) (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(mapc (get 'shop::it 'shop::does) '(\"HARM\"))")
    ("(defun shop::call-it (function &rest arguments) (apply function arguments))"
     "(shop::call-it shop::*name* \"HARM\")")
    ("(defvar shop::*named* (list (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl)))"
     "(defmethod print-object ((it shop::item) stream) (funcall (first shop::*named*) \"HARM\"))")
    ("(defmacro shop::hidden () (list (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl) \"HARM\"))"
     "(shop::hidden)")
    ("(defvar shop::*text* \"(delete-file HARM)\")"
     "(eval (read-from-string shop::*text*))"))
  "Texts of which the first does nothing by itself, and the second is a hit after it.")

(agent-q-test-image-on-each what-an-earlier-call-stored-is-seen ()
  "A name that a call has put into a variable, a table or a macro is found where it is used."
  (agent-q-test-assess-prepare connection)
  (pcase-dolist (`(,first ,second) agent-q-assess-later-test--two-calls)
    (should-not (plist-get (agent-q-test-assess-form connection first) :hits))
    (agent-q-test-image-values connection first)
    (ert-info (second)
      (should (plist-get (agent-q-test-assess-form connection second) :hits))))
  ;; What is stored is not what is called.
  (should-not (plist-get (agent-q-test-assess-form
                          connection "(funcall (or (gethash :other shop:*catalog*) #'list) shop::*harm*)")
                         :hits))
  (agent-q-test-image-values connection "(clrhash shop:*catalog*)"))

(provide 'agent-q-assess-later-test)
;;; agent-q-assess-later-test.el ends here
