;;; agent-q-connections-test.el --- Images that come, go and are many  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Several real images at once through SLIME, through SLY and through both; one
;; that is killed and started anew in the middle of a chat; one that is saved
;; with the Common Lisp half in it; and one whose files have other names here.

;;; Code:

(require 'agent-q-test-registry)
(require 'agent-q-test-tools)
(require 'agent-q-test-watch)

(defvar slime-filename-translations)
(defvar slime-from-lisp-filename-function)
(defvar sly-filename-translations)
(defvar sly-from-lisp-filename-function)

(defmacro agent-q-connections-test--with-another (variable client program &rest body)
  "Run BODY with VARIABLE bound to a connection of its own through CLIENT.
It is to PROGRAM, or SBCL when that is nil, and killed at the end."
  (declare (indent 3) (debug t))
  `(let ((,variable (agent-q-test-image-another ,client ,program)))
     (unwind-protect (progn ,@body)
       (agent-q-test-image-kill ,variable))))

(defun agent-q-connections-test--whole (line chat)
  "Return the answer to the console LINE in CHAT, with its image's name."
  (agent-q-test-tools-ask line chat)
  (with-current-buffer chat
    (agent-q-test-tools-whole-answer)))

;;;; Several at once

(agent-q-test-tools-on-each connections-are-one-for-each-chat ()
  "Each chat works in its own image, which answers name; a command switches."
  (agent-q-connections-test--with-another second client nil
    (let ((other (agent-q-chat-open t))
          (where "/eval_form (and (boundp 'cl-user::*aq-where*) (symbol-value 'cl-user::*aq-where*))"))
      (unwind-protect
          (progn
            (agent-q-test-image-directly connection "(defparameter *aq-where* :first)")
            (agent-q-test-image-directly second "(defparameter *aq-where* :second)")
            (with-current-buffer other
              (agent-q-chat-set-connection second))
            (should-not (equal (agent-q-connection-label connection) (agent-q-connection-label second)))
            (should (equal (format "=> :FIRST\n(In image %s.)" (agent-q-connection-label connection))
                           (agent-q-connections-test--whole where chat)))
            (should (equal (format "=> :SECOND\n(In image %s.)" (agent-q-connection-label second))
                           (agent-q-connections-test--whole where other)))
            (should (string-suffix-p (format "\n(In image %s.)" (agent-q-connection-label second))
                                     (agent-q-connections-test--whole
                                      "/eval_form (error \"no\")" other)))
            ;; The request names it, too, and the header, and the prompt of the model.
            (with-current-buffer other
              (agent-q-test-send "/eval_form (uiop:run-program \"true\")")
              (agent-q-test-until (agent-q-call-waiting))
              (should (string-match-p (concat "^ *image: "
                                              (regexp-quote (agent-q-connection-label second)) "$")
                                      (agent-q-test-log)))
              (agent-q-test-answer "n")
              (agent-q-test-until (agent-q-test-idle-p))
              (should (string-match-p (regexp-quote (agent-q-connection-label second))
                                      (agent-q-chat-view-header-line)))
              ;; A program of the project has nothing to do with it.
              (let ((before (buffer-size)))
                (agent-q-test-send "/run_command program=true")
                (agent-q-test-until (agent-q-call-waiting))
                (should-not (string-match-p "^ *image: " (buffer-substring before (point-max)))))
              (agent-q-test-answer "n")
              (agent-q-test-until (agent-q-test-idle-p)))
            (should (string-match-p (regexp-quote (agent-q-connection-label second))
                                    (agent-q-connection-facts second)))
            ;; The command offers both by names that differ.
            (cl-letf (((symbol-function 'completing-read)
                       (lambda (_prompt choices &rest _)
                         (should (assoc (agent-q-connection-label second) choices))
                         (agent-q-connection-label connection))))
              (with-current-buffer other
                (call-interactively #'agent-q-chat-set-connection)))
            (should (string-prefix-p "=> :FIRST\n" (agent-q-connections-test--whole where other))))
        (kill-buffer other)))))

(agent-q-test-tools-on-each connections-are-named-by-every-tool-of-an-image ()
  "With two images, what comes from the debuggers and the past of one names it, failures too."
  (agent-q-connections-test--with-another second client nil
    (agent-q-chat-set-connection second)
    (let ((parked (agent-q-connections-test--whole "/eval_form on_error=park (error \"stop\")" chat))
          (name (format "\n(In image %s.)" (agent-q-connection-label second))))
      (should (string-match "parked as debugger \\(d[0-9]+\\)" parked))
      (let ((debugger (match-string 1 parked)))
        (dolist (line (list "/list_debuggers"
                            (format "/debugger_frames %s" debugger)
                            (format "/eval_in_frame debugger=%s (+ 1 2)" debugger)
                            (format "/eval_in_frame debugger=%s (error \"again\")" debugger)
                            (format "/invoke_restart debugger=%s no-such-restart" debugger)
                            "/debugger_frames d0"
                            "/get_last_error" "/get_repl_history" "/get_compilation_notes"
                            (format "/invoke_restart debugger=%s abort" debugger)
                            "/list_debuggers"))
          (let ((answer (agent-q-connections-test--whole line chat)))
            (should (equal (list line t) (list line (string-suffix-p name answer))))
            (should (equal (list line 1)
                           (list line (1- (length (split-string answer "(In image "))))))))))))

(ert-deftest agent-q-connections-of-both-clients-side-by-side ()
  "SLIME and SLY in one Emacs serve a chat each, at the same time."
  :tags '(:image)
  (let* ((slime (agent-q-test-image-connection 'slime))
         (sly (agent-q-test-image-connection 'sly)))
    (unless (and slime sly)
      (ert-skip "SLIME and SLY are not both here"))
    (agent-q-test-with-chat
      (agent-q-chat-set-connection slime)
      (let ((other (agent-q-chat-open t)))
        (unwind-protect
            (let ((clients "/eval_form timeout=20 (progn (sleep 0.3) (list (and (find-package \"SWANK\") t) (and (find-package \"SLYNK\") t)))"))
              (with-current-buffer other
                (agent-q-chat-set-connection sly)
                (agent-q-test-send clients))
              (with-current-buffer chat
                (agent-q-test-send clients)
                (agent-q-test-until (agent-q-test-idle-p))
                (should (equal (format "=> (T NIL)\n(In image %s.)" (agent-q-connection-label slime))
                               (agent-q-test-tools-whole-answer))))
              (with-current-buffer other
                (agent-q-test-until (agent-q-test-idle-p))
                (should (equal (format "=> (NIL T)\n(In image %s.)" (agent-q-connection-label sly))
                               (agent-q-test-tools-whole-answer))))
              (should-not (equal (agent-q-connection-label slime) (agent-q-connection-label sly)))
              ;; An error that one parks is not the other's.
              (should (string-match-p "parked as debugger"
                                      (agent-q-test-tools-ask
                                       "/eval_form on_error=park (error \"mine\")" other)))
              (should-not (string-match-p "mine" (agent-q-test-tools-ask "/list_debuggers" chat)))
              (should (string-match-p "mine" (agent-q-test-tools-ask "/list_debuggers" other)))
              (should-not (agent-q-test-image-debugged)))
          (kill-buffer other))))
    (agent-q-test-until (null (agent-q-image-park-list)))))

(ert-deftest agent-q-connections-of-both-clients-keep-their-tools ()
  "Images of one name, in SLIME and SLY, don't take each other's tools; each may redefine its own."
  :tags '(:image)
  (let* ((slime (agent-q-test-image-connection 'slime))
         (sly (agent-q-test-image-connection 'sly))
         (definition "(agent-q-image:define-tool \"aq_same\" \"From %s.\" '() :handler #'list)")
         (warned nil))
    (unless (and slime sly)
      (ert-skip "SLIME and SLY are not both here"))
    (cl-flet ((define (connection text)
                (agent-q-test-image-values connection (format definition text)))
              (described ()
                (plist-get (cl-find "aq_same" (agent-q-core-tools)
                                    :key (lambda (tool) (plist-get tool :name)) :test #'equal)
                           :description)))
      (cl-letf (((symbol-function 'display-warning)
                 (lambda (_ text &rest _) (push text warned)))
                ((symbol-function 'agent-q-connection-name) (lambda (_) "sbcl")))
        (unwind-protect
            (progn
              (agent-q-image-tools-ensure slime)
              (define slime "one")
              (agent-q-test-until (equal "From one." (described)))
              (agent-q-image-tools-ensure sly)
              (define sly "another")
              (agent-q-test-until
               (cl-find-if (lambda (text) (string-match-p "Another tool has that name" text))
                           warned))
              (should (equal "From one." (described)))
              (define slime "one, better")
              (agent-q-test-until (equal "From one, better." (described))))
          (dolist (connection (list slime sly))
            (agent-q-test-image-values connection "(agent-q-image:remove-tool \"aq_same\")"))
          (agent-q-test-until (not (described))))))))

;;;; Lost and found

(defconst agent-q-connections-test--turn
  (json-encode
   (cl-flet ((calls (needles tool &rest arguments)
               `((expect (contains . ,needles))
                 (steps . [((tool_calls . [((name . ,tool) (arguments . ,arguments))]))]))))
     `((turns
        . [,(calls [] "eval_form" '(form . "(defvar *aq-chat* :old)"))
           ,(calls ["*AQ-CHAT*"] "eval_form" '(form . "(sb-ext:exit :abort t)"))
           ,(calls ["The connection to the Lisp image was lost"]
                   "eval_form" '(form . "(defvar *aq-chat* :new)"))
           ,(calls ["No Lisp image is connected"] "t_start" '(text . "a Lisp"))
           ,(calls ["Started"] "eval_form" '(form . "(defvar *aq-chat* :new)"))
           ,(calls ["*AQ-CHAT*"] "eval_form" '(form . "(list *aq-chat*)"))
           ((expect (contains . ["(:NEW)"]))
            (steps . [((text . "It was started anew."))]))]))))
  "A turn that ends its image and goes on.")

(agent-q-test-tools-on-each connections-are-replaced-in-a-turn ()
  "The image ends in the middle of a turn, the user starts another, and the turn goes on there."
  (agent-q-test-with-model agent-q-connections-test--turn
    (agent-q-connections-test--with-another first client nil
      (let ((agent-q-provider (list :name "scripted" :model "scripted" :key "none"
                                    :base-url (process-get server 'base-url)))
            (another nil))
        (agent-q-test-with-tools
            ((agent-q-test-tool "t_start" (lambda (_) "Started") :safety-level :dangerous))
          (agent-q-test-with-chat
            (agent-q-chat-set-connection first)
            (agent-q-test-send "go")
            ;; The call that ends the image asks.
            (agent-q-test-answer "y")
            (agent-q-test-until (not (agent-q-connection-live-p first)))
            ;; A form fails at once then, and the turn waits only for the user's own tool.
            (agent-q-test-until (agent-q-call-waiting))
            (should (equal "t_start" (agent-q-call-tool (agent-q-call-waiting))))
            (should (agent-q-test-shows "No Lisp image is connected"))
            (unwind-protect
                (progn
                  (setq another (agent-q-test-image-another client))
                  (agent-q-test-answer "y")
                  (agent-q-test-until (agent-q-test-idle-p))
                  (should (agent-q-test-shows "It was started anew."))
                  (should (equal ":NEW" (agent-q-test-image-directly another "*aq-chat*")))
                  (should (equal another agent-q-session-connection)))
              (agent-q-test-image-kill another))))))))

(agent-q-test-tools-on-each connections-are-replaced-in-a-chat ()
  "Once the user has started another image, the same chat goes on there."
  (let ((another nil))
    (agent-q-connections-test--with-another first client nil
      (agent-q-chat-set-connection first)
      (should (equal "=> *AQ-CHAT*" (agent-q-test-tools-ask "/eval_form (defvar *aq-chat* :old)" chat)))
      (agent-q-test-image-kill first)
      ;; The images that were there already are other programs.
      (should (string-match-p "No Lisp image is connected"
                              (agent-q-test-tools-ask "/eval_form *aq-chat*" chat)))
      (should (agent-q-test-shows "The connection of this chat was closed; M-x"))
      (unwind-protect
          (progn
            (setq another (agent-q-test-image-another client))
            (should (string-match-p "UNBOUND-VARIABLE"
                                    (agent-q-test-tools-ask "/eval_form *aq-chat*" chat)))
            (should (equal another (buffer-local-value 'agent-q-session-connection chat)))
            (should (equal "=> *AQ-CHAT*"
                           (agent-q-test-tools-ask "/eval_form (defvar *aq-chat* :new)" chat)))
            (should (equal ":NEW" (agent-q-test-image-directly another "*aq-chat*")))
            (should (equal "T" (agent-q-test-image-directly
                                another "(consp agent-q-image::*versions*)"))))
        (agent-q-test-image-kill another)))))

;;;; Saved

(agent-q-test-tools-on-each connections-to-a-saved-image ()
  "An image saved with our half in it has the half when it starts, and nothing that is over."
  (let ((file (make-temp-file (expand-file-name "saved" agent-q-test-directory) nil ".core")))
    (unwind-protect
        (progn
          (agent-q-connections-test--with-another first client nil
            (agent-q-chat-set-connection first)
            (agent-q-test-tools-ask "/eval_form (defun aq-saved () (make-hash-table)) (aq-saved)" chat)
            (should (string-match-p "parked as debugger"
                                    (agent-q-test-tools-ask
                                     "/eval_form on_error=park (error \"parked\")" chat)))
            (should (equal "(T T T)" (agent-q-connections-test--state first)))
            ;; A module of an earlier agent-q.
            (agent-q-test-tools-ask "/describe_symbol car" chat)
            (agent-q-test-image-directly
             first "(setf (cdr (assoc \"introspection\" agent-q-image::*versions* :test 'string=)) \"older\")")
            (agent-q-test-image-save first file))
          (agent-q-connections-test--with-another again client
              (list "sbcl" "--core" file "--no-userinit" "--no-sysinit")
            (agent-q-chat-set-connection again)
            (should (equal "T" (agent-q-test-image-directly
                                again "(hash-table-p (funcall 'aq-saved))")))
            (should (equal "(NIL NIL NIL)" (agent-q-connections-test--state again)))
            ;; The client's own thread that knows of connections is gone, but the user is asked.
            (agent-q-test-watch-with again "stop"
              (should (eq :cancelled
                          (plist-get (agent-q-test-watch-eval
                                      again "(open \"DIR/none\" :direction :output)")
                                     :outcome)))
              (should (= 1 (length agent-q-test-watch-questions))))
            ;; What it has is not sent again, what has another version is.
            (let ((sent (agent-q-connections-test--sent
                         (lambda ()
                           (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)" chat)))
                           (should (string-match-p
                                    "MAPCAR" (agent-q-test-tools-ask
                                              "/describe_symbol mapcar" chat)))))))
              ;; What image and files don't have alike is looked at when there is time for it.
              (should (equal '("introspection") (remove "drift" sent))))
            (should (string-match-p "No debugger is open\\|no debugger"
                                    (agent-q-test-tools-ask "/list_debuggers" chat)))
            (should (string-match-p "has not changed AQ-SAVED"
                                    (agent-q-test-tools-ask "/undo_definition aq-saved" chat)))
            (agent-q-test-tools-ask "/compile_form (defun aq-saved () :new)" chat)
            (should (equal ":NEW" (agent-q-test-image-directly again "(funcall 'aq-saved)")))
            (should (string-match-p "restored the previous" (agent-q-test-tools-ask
                                               "/undo_definition aq-saved" chat)))
            (should (equal "T" (agent-q-test-image-directly
                                again "(hash-table-p (funcall 'aq-saved))")))))
      (delete-file file))))

(defun agent-q-connections-test--state (connection)
  "Return whether the image behind CONNECTION has parked errors, handles and a journal."
  (agent-q-test-image-directly
   connection "(list (and agent-q-image::*parked* t) (and agent-q-image::*handles* t)
                     (and agent-q-image::*journal* t))"))

(defun agent-q-connections-test--sent (function)
  "Call FUNCTION and return the names of the modules that were sent meanwhile."
  (let* ((sent nil)
         (note (lambda (module &rest _)
                 (push (agent-q-image-module--module-name module) sent))))
    (advice-add 'agent-q-image-module-shipping-form :before note)
    (unwind-protect (funcall function)
      (advice-remove 'agent-q-image-module-shipping-form note))
    sent))

;;;; Elsewhere

(agent-q-test-tools-on-each connections-to-another-machine ()
  "Files of the image are called, and read, as the client translates their names."
  (require (intern (format "%s-tramp" client)))
  (let* ((theirs (file-name-as-directory (make-temp-file "agent-q-theirs" t)))
         (ours (file-name-as-directory (make-temp-file "agent-q-ours" t)))
         (source "(in-package :cl-user)\n(defun aq-far (x)\n  (list :far x))\n(defun aq-caller () (aq-far 1))\n")
         (translations (list (list "." #'identity
                                   (lambda (name)
                                     (if (string-prefix-p theirs name)
                                         (concat ours (substring name (length theirs)))
                                       name)))))
         (slime-filename-translations translations)
         (sly-filename-translations translations)
         (slime-from-lisp-filename-function 'slime-tramp-from-lisp-filename)
         (sly-from-lisp-filename-function 'sly-tramp-from-lisp-filename))
    (unwind-protect
        (progn
          (write-region source nil (concat theirs "far.lisp") nil 'silent)
          (write-region (concat ";; Here it has\n;; two lines more.\n" source)
                        nil (concat ours "far.lisp") nil 'silent)
          (agent-q-test-image-directly
           connection (format "(let ((*error-output* (make-broadcast-stream)))
                                 (load (compile-file %S)))"
                              (concat theirs "far.lisp")))
          (delete-file (concat theirs "far.lisp"))
          (let ((found (agent-q-test-tools-ask "/find_definition aq-far" chat))
                (place (concat ours "far.lisp:4")))
            (should (string-match-p (regexp-quote place) found))
            (should (string-match-p "(list :far x)" found))
            (should-not (string-match-p (regexp-quote theirs) found))
            (should (string-match-p (regexp-quote place)
                                    (agent-q-test-tools-ask "/describe_symbol aq-far" chat))))
          (let ((callers (agent-q-test-tools-ask "/who_calls aq-far" chat)))
            (should (string-match-p "AQ-CALLER" callers))
            (should-not (string-match-p (regexp-quote theirs) callers))))
      (delete-directory theirs t)
      (delete-directory ours t))))

(provide 'agent-q-connections-test)
;;; agent-q-connections-test.el ends here
