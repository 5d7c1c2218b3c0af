;;; agent-q-handles-test.el --- Objects that were shown, in forms  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; $v7 in a form is the object that was shown as v7, and * and its like are
;; about the agent's own evaluations, on real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)

(defun agent-q-handles-test-new (form)
  "Evaluate FORM and return the name of its value's handle, such as v7."
  (let ((told (agent-q-test-tools-ask (format "/eval_form %s" form))))
    (should (string-match "\\[\\(v[0-9]+\\)\\]" told))
    (match-string 1 told)))

(agent-q-test-tools-on-each handles-in-forms ()
  "A handle is a variable wherever forms are given, and leaves nothing behind."
  (agent-q-test-image-eval connection "(progn (defpackage :aq-handled (:use :cl))
                                         (defstruct aq-box (price 1)))")
  (let* ((v (agent-q-handles-test-new "(make-aq-box)"))
         (w (agent-q-handles-test-new "(make-aq-box :price 2)"))
         (up (upcase v))
         (ask (lambda (line) (agent-q-test-tools-ask (format-spec line `((?v . ,v) (?w . ,w) (?u . ,up)))))))
    (should (equal "=> 3" (funcall ask "/eval_form (setf (aq-box-price $%v) 3)")))
    (should (equal "=> (3 2 3 T)"
                   (funcall ask "/eval_form (list (aq-box-price $%v) (aq-box-price $%w) (aq-box-price $%u) (eq $%v #.'$%v))")))
    ;; In another package, in threads, and in the text of several forms.
    (should (equal "=> (3 NIL)"
                   (funcall ask "/eval_form package=aq-handled (list (cl-user::aq-box-price $%v) (find-symbol \"$%u\"))")))
    (should (equal "=> 3" (funcall ask "/eval_form (sb-thread:join-thread (sb-thread:make-thread (lambda () (aq-box-price $%v))))")))
    (should (string-match-p "=> AQ-TWO\n.*\n=> (3 AQ-TWO)"
                            (funcall ask "/eval_form (defun aq-two (x) (list (aq-box-price x) 'aq-two)) (aq-two $%v)")))
    ;; Not in strings, characters and comments.
    (should (equal "=> (\"costs $v999\" #\\$ 1)"
                   (agent-q-test-tools-ask "/eval_form (list \"costs $v999\" #\\$ #|$v999|# 1)")))
    (should (string-match-p "\\`No object v999: only v[0-9]+ to v[0-9]+ are kept"
                            (agent-q-test-tools-ask "/eval_form (list 1 $v999)")))
    (should (string-match-p "\\`No object v999"
                            (agent-q-test-tools-ask "/eval_form `(a ,$v999)")))
    (should (equal "=> NIL\n=> NIL" (funcall ask "/eval_form (find-symbol \"$%u\")")))
    (should (equal "=> NIL\n=> NIL" (funcall ask "/eval_form (find-symbol \"$V999\")")))
    (should (string-match-p (concat "\\`" v ": #S(AQ-BOX :PRICE 3)") (funcall ask "/inspect_value $%v")))
    ;; A program's own symbol stays what it is.
    (agent-q-test-image-directly connection (format "(set (intern %S :cl-user) :mine)" (concat "$" up)))
    (should (equal "=> :MINE" (funcall ask "/eval_form $%v")))
    (agent-q-test-image-directly connection (format "(unintern (find-symbol %S :cl-user) :cl-user)" (concat "$" up)))))

(agent-q-test-tools-on-each handles-in-frames ()
  "Locals of frames have handles; frames, restarts and returns take them."
  (agent-q-test-image-eval
   connection "(progn (defstruct aq-box (price 1))
                 (defun aq-boxed (box) (declare (optimize (debug 2)))
                   (list (restart-case (error \"boxed ~a\" (aq-box-price box)) (use-value (v) v)) box)))")
  (cl-flet ((park () (string-match "debugger \\(d[0-9]+\\)"
                                   (agent-q-test-tools-ask "/eval_form on_error=park (aq-boxed (make-aq-box :price 7))"))
                  (agent-q-test-until (agent-q-image-park-list))
                  (agent-q-image-parked-name (car (agent-q-image-park-list)))))
    (let* ((name (park))
           (frames (agent-q-test-tools-ask "/debugger_frames locals=true"))
           (v (progn (should (string-match "BOX = #S(AQ-BOX :PRICE 7) \\[\\(v[0-9]+\\)\\]$" frames))
                     (match-string 1 frames))))
      (should (equal "=> (T 7)" (agent-q-test-tools-ask
                                 (format "/eval_in_frame debugger=%s form=\"(list (eq box $%s) (aq-box-price $%s))\"" name v v))))
      (should (string-match-p "\\`No object v999"
                              (agent-q-test-tools-ask
                               (format "/eval_in_frame debugger=%s form=\"$v999\"" name))))
      (should (equal "=> (8 #S(AQ-BOX :PRICE 7))"
                     (replace-regexp-in-string
                      " \\[v[0-9]+\\]" ""
                      (agent-q-test-tools-ask
                       (format "/invoke_restart debugger=%s restart=use-value values=\"(1+ (aq-box-price $%s))\"" name v)))))
      (agent-q-test-until (null (agent-q-image-park-list))))))

(agent-q-test-tools-on-each handles-are-seen-through ()
  "What a handle stands for is judged as the value of a variable is."
  (let ((harmless (agent-q-handles-test-new "(list (lambda () 1))"))
        (harm (agent-q-handles-test-new "(list 'delete-file #'delete-file)"))
        (file (make-temp-file "aq-left")))
    (pcase-dolist (`(,form . ,asks)
                   `((,(format "(length $%s)" harmless) . nil)
                     (,(format "(funcall (second $%s) %S)" harm file) . t)
                     (,(format "(mapcar (first $%s) '(%S))" harm file) . t)))
      (agent-q-test-send (concat "/eval_form " form))
      (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
      (should (eq asks (and (agent-q-call-waiting) t)))
      (when (agent-q-call-waiting)
        (should (string-match-p (concat "wants to delete " file "\\|deletes or writes files")
                                (agent-q-test-log)))
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))))
    (delete-file file)))

(agent-q-test-tools-on-each last-evaluations ()
  "The agent's * and its like are its own; those of the user's REPL stay."
  (agent-q-test-image-directly connection "(setf * :users)")
  (let ((before (agent-q-test-image-directly connection "(prin1-to-string (list * ** + /))")))
    (agent-q-test-tools-ask "/eval_form (values 1 2)")
    (should (equal "=> (1 (1 2) (VALUES 1 2))" (agent-q-test-tools-ask "/eval_form (list * / +)")))
    (should (string-match-p "=> 11\n" (agent-q-test-tools-ask "/eval_form 10 (1+ *)  (list * **)")))
    (should (equal "=> (11 10)" (agent-q-test-tools-ask "/eval_form *")))
    ;; An error leaves them.
    (agent-q-test-tools-ask "/eval_form (error \"no\")")
    (should (equal "=> (11 10)" (agent-q-test-tools-ask "/eval_form *")))
    (should (equal before (agent-q-test-image-directly connection "(prin1-to-string (list * ** + /))")))))

(provide 'agent-q-handles-test)
;;; agent-q-handles-test.el ends here
